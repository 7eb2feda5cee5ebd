"""When the classes of an engine are mapped, and when an archive of them is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.machine import class_archive, kafka_jars

pytestmark = pytest.mark.unit


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The jars of an engine; nothing is in the cache."""
    monkeypatch.setattr(kafka_jars, "CACHE", tmp_path / "cache")
    made = [tmp_path / "a.jar", tmp_path / "b.jar"]
    for jar in made:
        jar.write_text("jar")
    return made


def write(jars: list[Path], text: str = "classes") -> None:
    """Let a JVM write an archive where there is none."""

    def run(options: list[str]) -> None:
        option, _, path = options[0].partition("=")
        assert option == "-XX:ArchiveClassesAtExit"
        Path(path).write_text(text)

    class_archive.write(jars, run)


def fail(_: list[str]) -> None:
    raise kafka_jars.NoKafkaError("it failed")


def kept() -> list[Path]:
    return list(kafka_jars.CACHE.iterdir())


def test_what_one_jvm_has_written_the_next_ones_map(jars: list[Path]) -> None:
    assert class_archive.options(jars) == []
    write(jars)

    (archive,) = kept()
    assert archive.stat().st_mode & 0o777 == 0o644
    assert class_archive.options(jars) == [f"-XX:SharedArchiveFile={archive}"]
    class_archive.write(jars, fail)
    assert kept() == [archive]


def test_an_archive_that_was_cut_off_is_not_mapped_and_is_written_again(jars: list[Path]) -> None:
    write(jars)
    (archive,) = kept()
    archive.write_text("cl")

    assert class_archive.options(jars) == []
    write(jars)
    assert class_archive.options(jars) == [f"-XX:SharedArchiveFile={archive}"]


def test_an_archive_of_former_jars_is_replaced_and_one_of_others_stays(jars: list[Path]) -> None:
    write(jars[:1], "of one jar")
    write(jars)
    before = class_archive.options(jars)
    jars[1].write_text("built anew")

    assert class_archive.options(jars) == []
    write(jars)
    assert class_archive.options(jars) not in ([], before)
    assert len(kept()) == 2
    assert class_archive.options(jars[:1])


def test_a_jvm_that_writes_no_archive_or_fails_leaves_nothing(jars: list[Path]) -> None:
    class_archive.write(jars, lambda _: None)
    class_archive.write(jars, fail)
    assert kept() == []
    assert class_archive.options(jars) == []


def test_where_nothing_can_be_kept_nothing_is_written(jars: list[Path]) -> None:
    kafka_jars.CACHE.write_text("no folder")
    write(jars)
    assert class_archive.options(jars) == []

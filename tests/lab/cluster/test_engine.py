"""The word for what nodes run, and what follows from it."""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

import pytest

from lab.cluster import ClusterSpec
from lab.cluster.engine import ENGINE_VARIABLE, OWN, Engine, EngineError, chosen

pytestmark = pytest.mark.unit


def distribution(folder: Path, jar: str) -> Path:
    (folder / "libs").mkdir(parents=True)
    (folder / "libs" / jar).touch()
    return folder


@pytest.mark.parametrize("text", ["jbodlab", "kafka:3.7.2", "kafka:4.3.1", "kafka:4.4.0-rc1"])
def test_text_of_an_engine_is_what_was_read(text: str) -> None:
    assert str(Engine.parse(text)) == text


@pytest.mark.parametrize("text", ["", "kafka", "kafka:", "kafka:4", "kafka:latest", "redpanda:1"])
def test_a_text_that_names_no_engine_is_refused_with_the_three_forms(text: str) -> None:
    with pytest.raises(EngineError, match=r"jbodlab, kafka:RELEASE .* kafka:FOLDER") as caught:
        Engine.parse(text)
    assert repr(text) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_release_without_log_directories_in_its_metadata_is_refused() -> None:
    with pytest.raises(EngineError, match=r"kafka:3\.6\.2: releases before 3\.7"):
        Engine.parse("kafka:3.6.2")


def test_a_distribution_says_its_release_by_its_jar(tmp_path: Path) -> None:
    folder = distribution(tmp_path / "kafka", "kafka_2.13-3.9.2.jar")
    engine = Engine.parse(f"kafka:{folder}")
    assert (engine.release, engine.folder) == ("3.9.2", folder)
    assert str(engine) == f"kafka:{folder}"
    assert engine.title == f"Apache Kafka 3.9.2 in {folder}"


def test_a_relative_folder_is_kept_as_an_absolute_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = distribution(tmp_path / "mine", "kafka_2.13-4.4.0-SNAPSHOT.jar")
    monkeypatch.chdir(tmp_path)
    assert Engine.parse("kafka:./mine") == Engine.parse("kafka:mine")
    assert Engine.parse("kafka:mine").folder == folder


@pytest.mark.parametrize(
    ("jar", "level"),
    [
        ("kafka_2.13-3.7.0.jar", (3, 7)),
        ("kafka_2.13-4.4.0-SNAPSHOT.jar", (4, 4)),
        ("kafka_2.13-7.8.0-ccs.jar", (3, 8)),
        ("kafka_2.13-8.0.0-ccs.jar", (4, 0)),
        ("kafka_2.13-7.9.1-ce.jar", (3, 9)),
    ],
)
def test_level_of_a_distribution_is_that_of_apache_kafka_in_it(
    tmp_path: Path, jar: str, level: tuple[int, int]
) -> None:
    assert Engine.parse(f"kafka:{distribution(tmp_path / 'kafka', jar)}").level == level


def test_a_distribution_of_an_old_release_is_refused(tmp_path: Path) -> None:
    folder = distribution(tmp_path / "kafka", "kafka_2.13-7.6.0-ccs.jar")
    with pytest.raises(EngineError, match="releases before"):
        Engine.parse(f"kafka:{folder}")


def test_a_folder_without_libs_or_without_the_servers_jar_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=f"there is no folder {tmp_path}/libs"):
        Engine.parse(f"kafka:{tmp_path}")
    distribution(tmp_path, "kafka_2.13-3.9.2-sources.jar")
    with pytest.raises(EngineError, match=f"no jar in {tmp_path}/libs tells the release"):
        Engine.parse(f"kafka:{tmp_path}")


@pytest.mark.parametrize(
    "jar",
    ["kafka_2.13.jar", "kafka_2.13-trunk.jar", "kafka_2.13-4.4x.jar", "kafka-clients-4.0.0.jar"],
)
def test_a_folder_whose_release_cannot_be_told_is_refused(tmp_path: Path, jar: str) -> None:
    with pytest.raises(EngineError, match="tells the release"):
        Engine.parse(f"kafka:{distribution(tmp_path / 'kafka', jar)}")


@pytest.mark.parametrize("name", ["with space", "link", "with:colon"])
def test_a_folder_may_be_a_link_or_have_spaces_but_no_colon_in_its_path(
    tmp_path: Path, name: str
) -> None:
    folder = distribution(tmp_path / "kafka", "kafka_2.13-3.9.2.jar")
    (tmp_path / name).symlink_to(folder)
    if ":" in name:
        with pytest.raises(EngineError, match="Java cannot read jars in a folder with ':'"):
            Engine.parse(f"kafka:{tmp_path / name}")
        return
    engine = Engine.parse(f"kafka:{tmp_path / name}")
    assert (engine.release, engine.folder) == ("3.9.2", tmp_path / name)
    assert Engine.parse(str(engine)) == engine


def test_a_folder_that_cannot_be_looked_into_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    folder = distribution(tmp_path / "kafka", "kafka_2.13-3.9.2.jar")
    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(EngineError, match="the folder cannot be read: Permission denied"):
        Engine.parse(f"kafka:{folder}")


def test_a_folder_of_nobody_is_refused() -> None:
    with pytest.raises(EngineError, match="the folder cannot be read: Could not determine home"):
        Engine.parse("kafka:~no-such-user/kafka")


@pytest.mark.parametrize(
    ("text", "is_dynamic"),
    [("jbodlab", False), ("kafka:3.9.2", False), ("kafka:4.0.0", True), ("kafka:4.3.1", True)],
)
def test_the_quorum_is_dynamic_from_release_4_0_on(text: str, is_dynamic: bool) -> None:
    assert Engine.parse(text).has_dynamic_quorum == is_dynamic


def test_the_variable_of_the_environment_is_the_default() -> None:
    variables = {ENGINE_VARIABLE: "kafka:3.9.1"}
    assert str(chosen(None, variables)) == "kafka:3.9.1"
    assert chosen("jbodlab", variables) == OWN
    assert chosen(None, {}) == OWN
    assert chosen(None, {ENGINE_VARIABLE: " "}) == OWN


def test_a_wrong_variable_of_the_environment_is_named() -> None:
    with pytest.raises(EngineError, match=f"^{ENGINE_VARIABLE}: expected an engine"):
        chosen(None, {ENGINE_VARIABLE: "kafka"})


@pytest.mark.parametrize(
    ("engine", "controllers", "is_combined", "jvm_options", "reason"),
    [
        ("jbodlab", 2, False, "", "has an odd number of controllers, not 2"),
        ("jbodlab", 1, True, "", "has one role"),
        ("jbodlab", 1, False, "-Xmx1g", "has no JVM"),
        ("kafka:4.3.1", 3, True, "", "3 controllers have no effect"),
        ("jbodlab", 1, False, "", ""),
        ("jbodlab", 3, False, "", ""),
        ("kafka:4.3.1", 3, False, "-Xmx1g", ""),
        ("kafka:4.3.1", 1, True, "", ""),
    ],
)
def test_what_an_engine_cannot_have_is_refused_by_name(
    engine: str, controllers: int, is_combined: bool, jvm_options: str, reason: str
) -> None:
    may_be = pytest.raises(EngineError, match=reason) if reason else contextlib.nullcontext()
    with may_be:
        ClusterSpec(
            engine=Engine.parse(engine),
            controllers=controllers,
            combined=is_combined,
            jvm_options=jvm_options,
        ).check()


def test_a_cluster_can_be_ended_whose_distribution_is_gone(tmp_path: Path) -> None:
    engine = Engine.written_down(f"kafka:{tmp_path}/gone")
    assert engine.is_kafka
    assert str(engine) == f"kafka:{tmp_path}/gone"
    assert Engine.written_down("kafka:3.9.1") == Engine.parse("kafka:3.9.1")


def test_the_jars_of_confluents_distribution_lie_elsewhere(tmp_path: Path) -> None:
    jars = tmp_path / "share" / "java" / "kafka"
    jars.mkdir(parents=True)
    (jars / "kafka_2.13-7.9.1-ccs.jar").touch()
    assert Engine.parse(f"kafka:{tmp_path}").release == "7.9.1-ccs"

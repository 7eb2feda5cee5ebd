from __future__ import annotations

import errno
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from analytics.errors import ReplayInputError
from analytics.read.arrow_rows import ALL, MAX_LONG, MIN_LONG
from analytics.source.options import narrowed, parse_options
from analytics.store.log_files import LogFiles, child, local_path, open_files
from jbodlab.metadata.records.config_records import NoOpRecord
from tests.analytics.builders import LogBuilder


@pytest.fixture
def nodes(tmp_path: Path) -> list[Path]:
    """Log directories of two nodes."""
    for name in ("a", "b"):
        log = LogBuilder(tmp_path / name)
        log.append(NoOpRecord())
        log.close()
    return [tmp_path / "a", tmp_path / "b"]


def directories(nodes: list[Path]) -> tuple[str, ...]:
    return tuple(str(node / "__cluster_metadata-0") for node in nodes)


def test_a_path_may_be_one_or_several(nodes: list[Path]) -> None:
    both = directories(nodes)
    one, two = map(str, nodes)

    assert tuple(parse_options({"path": one}).sources) == both[:1]
    assert tuple(parse_options({"path": f"{one}, {two}"}).sources) == both
    assert tuple(parse_options({"path": json.dumps([one, two])}).sources) == both
    assert tuple(parse_options({"paths": json.dumps([one, two])}).sources) == both
    assert tuple(parse_options({"path": str(nodes[0].parent)}).sources) == both
    assert tuple(parse_options({"path": f"{one},{one}"}).sources) == both[:1]


def log_in(folder: Path) -> str:
    log = LogBuilder(folder)
    log.append(NoOpRecord())
    log.close()
    return str(log.directory)


@pytest.mark.parametrize("name", ["a,b", "x, y", ",", "[a,b]", "{a,b}", "[a]", "what?", "a*"])
def test_what_there_is_by_the_whole_name_is_one_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    whole = log_in(tmp_path / name)
    other = log_in(tmp_path / "other")
    log_in(tmp_path / "a")
    monkeypatch.chdir(tmp_path)

    for path in (tmp_path / name, name):
        (found,) = parse_options({"path": str(path)}).sources
        assert str((tmp_path / found).resolve()) == whole
    uri = (tmp_path / name).as_uri()
    assert tuple(parse_options({"path": uri}).sources) == (f"{uri}/__cluster_metadata-0",)
    listed = json.dumps([str(tmp_path / name), str(tmp_path / "other")])
    assert set(parse_options({"paths": listed}).sources) == {whole, other}


def test_a_folder_with_a_comma_on_another_file_system_is_one_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(tmp_path / "a,b")
    log_in(tmp_path / "a")
    log_in(tmp_path / "c")
    # The library's own local file system stands for all that it can reach.
    for module in ("store.log_files", "read.metadata_dirs", "source.options", "store.patterns"):
        monkeypatch.setattr(f"analytics.{module}.local_path", lambda source: None)
    folder = f"file://{tmp_path}"

    assert tuple(parse_options({"path": f"{folder}/a,b"}).sources) == (
        f"{folder}/a,b/__cluster_metadata-0",
    )
    assert tuple(parse_options({"path": f"{folder}/a,{folder}/c"}).sources) == (
        f"{folder}/a/__cluster_metadata-0",
        f"{folder}/c/__cluster_metadata-0",
    )


@pytest.mark.parametrize(
    "pattern", ["*", "[ab]", "?", "[!c]", "[ab]/__cluster_metadata-0", "*/*", "a,[b]", "a, ?"]
)
def test_a_pattern_names_the_logs_that_it_matches(
    nodes: list[Path], monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    root = nodes[0].parent
    (root / "c").mkdir()
    (root / "d").write_text("no log")
    (root / "e,f").mkdir()
    monkeypatch.chdir(root)
    paths = [f"{root}/{one.strip()}" for one in pattern.split(",")]

    assert tuple(parse_options({"path": ",".join(paths)}).sources) == directories(nodes)
    assert tuple(parse_options({"paths": json.dumps(paths)}).sources) == directories(nodes)
    found = tuple(parse_options({"path": pattern}).sources)
    assert tuple(str((root / one).resolve()) for one in found) == directories(nodes)


def test_a_pattern_below_a_folder_with_a_comma_is_one_path(tmp_path: Path) -> None:
    log = log_in(tmp_path / "a,b" / "node")

    assert tuple(parse_options({"path": f"{tmp_path}/a,b/*"}).sources) == (log,)


def test_a_directory_that_a_pattern_matches_and_that_cannot_be_read_is_not_left_out(
    nodes: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(source: str) -> LogFiles:
        if "/b" in source:
            raise PermissionError(errno.EACCES, "Permission denied")
        return open_files(source)

    monkeypatch.setattr("analytics.read.metadata_dirs.open_files", refusing)

    with pytest.raises(ReplayInputError, match="b cannot be read: Permission denied"):
        parse_options({"path": f"{nodes[0].parent}/*"})


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("ROOT/x*", "input ROOT/x* matches nothing"),
        ("[x]*", "path '[x]*' matches nothing, and is not a JSON list"),
        (
            "ROOT/{a,b}",
            "path 'ROOT/{a,b}': of patterns there are *, ? and [...]; in place of {a,b} give a "
            "list of paths, load(['a', 'b'])",
        ),
        (
            "",
            "the data source kraft-metadata needs a path: "
            "spark.read.format('kraft-metadata').load(PATH), or "
            "CREATE TEMPORARY VIEW V USING `kraft-metadata` OPTIONS (path 'PATH'); of CREATE TABLE "
            "... USING `kraft-metadata` Spark gives it no options: "
            "CREATE TABLE T AS SELECT * FROM V",
        ),
    ],
)
def test_a_path_that_names_no_log_is_refused_with_what_to_write(
    nodes: list[Path], path: str, message: str
) -> None:
    root = str(nodes[0].parent)

    with pytest.raises(ReplayInputError) as refused:
        parse_options({"path": path.replace("ROOT", root)})

    assert str(refused.value) == message.replace("ROOT", root)


def test_a_file_uri_is_a_local_path(nodes: list[Path]) -> None:
    uri = nodes[0].as_uri()

    (found,) = parse_options({"path": uri}).sources

    assert found == f"{uri}/__cluster_metadata-0"
    assert "00000000000000000000.log" in open_files(found).entries()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("/a/b", "/a/b"),
        ("a b", "a b"),
        ("file:/a/b%20c", "/a/b c"),
        ("file:///a", "/a"),
        ("hdfs://nn:8020/a", None),
        ("s3a://bucket/a", None),
    ],
)
def test_which_sources_lie_on_this_machine(source: str, expected: str | None) -> None:
    assert local_path(source) == (None if expected is None else Path(expected))


def test_folders_of_uris() -> None:
    assert child("hdfs://nn/a/", "b") == "hdfs://nn/a/b"
    assert child("/a/", "b") == "/a/b"


def test_another_file_system_is_read_by_its_uri(
    nodes: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The library's own local file system stands for all that it can reach.
    monkeypatch.setattr("analytics.store.log_files.local_path", lambda source: None)
    monkeypatch.setattr("analytics.read.metadata_dirs.local_path", lambda source: None)
    uri = nodes[0].as_uri()

    (found,) = parse_options({"path": uri}).sources
    files = open_files(found)

    size = files.entries()["00000000000000000000.log"]
    assert size is not None
    data = files.read("00000000000000000000.log", 0, size + 100)
    assert len(data) == size
    assert files.read("00000000000000000000.log", 61, 5) == data[61:66]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"path": "[1]"},
        {"path": "[nonsense"},
        {"path": "/nowhere"},
        {"path": "nosuchfilesystem://x/y"},
        {"path": "LOG", "splitBytes": "many"},
        {"path": "LOG", "payload": "maybe"},
        {"path": "LOG", "startTime": "yesterday"},
    ],
)
def test_options_that_are_none_are_refused(options: dict[str, str], nodes: list[Path]) -> None:
    given = {name: value.replace("LOG", str(nodes[0])) for name, value in options.items()}
    with pytest.raises(ReplayInputError):
        parse_options(given)


def test_bounds_are_offsets_and_times(nodes: list[Path]) -> None:
    options = parse_options(
        {
            "PATH": str(nodes[0]),
            "STARTOFFSET": "5",
            "endOffset": "9",
            "startTime": "1970-01-01T00:00:01.0005",
            "endTime": "1970-01-01T01:00:02+01:00",
        }
    )

    assert options.selection.replay_offset == (5, 9)
    assert options.selection.replay_time_ms == (1001, 2000)
    assert parse_options({"path": str(nodes[0])}).selection is ALL


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (EqualTo(("offset",), 5), (5, 6)),
        (GreaterThan(("offset",), 5), (6, MAX_LONG)),
        (GreaterThanOrEqual(("offset",), 5), (5, MAX_LONG)),
        (LessThan(("offset",), 5), (MIN_LONG, 5)),
        (LessThanOrEqual(("offset",), 5), (MIN_LONG, 6)),
        (EqualTo(("offset",), None), (MIN_LONG, MAX_LONG)),
        (Not(EqualTo(("offset",), 5)), (MIN_LONG, MAX_LONG)),
        (IsNull(("offset",)), (MIN_LONG, MAX_LONG)),
        (EqualTo(("partition",), 5), (MIN_LONG, MAX_LONG)),
    ],
)
def test_filters_bound_offsets(one: Filter, expected: tuple[int, int]) -> None:
    assert narrowed(ALL, [one]).offset == expected


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("startOfset", "has no option startOfset, did you mean startOffset"),
        ("colour", "has no option colour; it has startOffset, endOffset, "),
    ],
)
def test_a_misspelt_option_is_refused(name: str, message: str, nodes: list[Path]) -> None:
    with pytest.raises(ReplayInputError, match=message):
        parse_options({"path": str(nodes[0]), name: "10"})


def test_filters_bound_times_and_lose_no_part_of_a_millisecond() -> None:
    moment = datetime(1970, 1, 1, 0, 0, 1, 500, tzinfo=UTC)

    assert narrowed(ALL, [GreaterThan(("timestamp",), moment)]).time_ms == (1000, MAX_LONG)
    assert narrowed(ALL, [LessThan(("timestamp",), moment)]).time_ms == (MIN_LONG, 1001)


def test_filters_choose_types() -> None:
    both = In(("type",), ("A", "B"))

    assert narrowed(ALL, [both]).types == {"A", "B"}
    assert narrowed(ALL, [both, EqualTo(("type",), "B")]).types == {"B"}
    assert narrowed(ALL, [EqualTo(("type",), "B"), EqualTo(("type",), "C")]).types == frozenset()

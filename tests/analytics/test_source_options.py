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
from tests.analytics.builders import log_of_one_record

ANY = (MIN_LONG, MAX_LONG)


def sources(**options: str) -> tuple[str, ...]:
    return tuple(parse_options(options).sources)


@pytest.fixture
def nodes(tmp_path: Path) -> tuple[str, str]:
    """Log directories of two nodes, a and b."""
    return str(log_of_one_record(tmp_path / "a")), str(log_of_one_record(tmp_path / "b"))


def test_a_path_may_be_one_or_several(nodes: tuple[str, str], tmp_path: Path) -> None:
    one, two = f"{tmp_path}/a", f"{tmp_path}/b"

    assert sources(path=one) == sources(path=f"{one},{one}") == nodes[:1]
    assert sources(path=f"{one}, {two}") == sources(path=str(tmp_path)) == nodes
    assert sources(path=json.dumps([one, two])) == sources(paths=json.dumps([one, two])) == nodes


@pytest.mark.parametrize("name", ["a,b", "x, y", ",", "[a,b]", "{a,b}", "[a]", "what?", "a*"])
def test_what_there_is_by_the_whole_name_is_one_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    whole, other, _ = (str(log_of_one_record(tmp_path / each)) for each in (name, "other", "a"))
    monkeypatch.chdir(tmp_path)

    for path in (str(tmp_path / name), name):
        (found,) = sources(path=path)
        assert str((tmp_path / found).resolve()) == whole
    uri = (tmp_path / name).as_uri()
    assert sources(path=uri) == (f"{uri}/__cluster_metadata-0",)
    listed = json.dumps([str(tmp_path / name), str(tmp_path / "other")])
    assert set(sources(paths=listed)) == {whole, other}


def test_a_folder_with_a_comma_on_another_file_system_is_one_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a,b", "a", "c"):
        log_of_one_record(tmp_path / name)
    # The library's own local file system stands for all that it can reach.
    for module in ("store.log_files", "read.metadata_dirs", "source.options", "store.patterns"):
        monkeypatch.setattr(f"analytics.{module}.local_path", lambda source: None)
    a, both, c = (f"file://{tmp_path}/{name}" for name in ("a", "a,b", "c"))

    assert sources(path=both) == (f"{both}/__cluster_metadata-0",)
    assert sources(path=f"{a},{c}") == (f"{a}/__cluster_metadata-0", f"{c}/__cluster_metadata-0")


@pytest.mark.parametrize(
    "pattern", ["*", "[ab]", "?", "[!c]", "[ab]/__cluster_metadata-0", "*/*", "a,[b]", "a, ?"]
)
def test_a_pattern_names_the_logs_that_it_matches(
    nodes: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "d").write_text("no log")
    (tmp_path / "e,f").mkdir()
    monkeypatch.chdir(tmp_path)
    paths = [f"{tmp_path}/{one.strip()}" for one in pattern.split(",")]

    assert sources(path=",".join(paths)) == sources(paths=json.dumps(paths)) == nodes
    assert tuple(str((tmp_path / one).resolve()) for one in sources(path=pattern)) == nodes


def test_a_pattern_below_a_folder_with_a_comma_is_one_path(tmp_path: Path) -> None:
    log = log_of_one_record(tmp_path / "a,b" / "node")

    assert sources(path=f"{tmp_path}/a,b/*") == (str(log),)


@pytest.mark.usefixtures("nodes")
def test_a_directory_that_a_pattern_matches_and_that_cannot_be_read_is_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(source: str) -> LogFiles:
        if "/b" in source:
            raise PermissionError(errno.EACCES, "Permission denied")
        return open_files(source)

    monkeypatch.setattr("analytics.read.metadata_dirs.open_files", refusing)

    with pytest.raises(ReplayInputError, match="b cannot be read: Permission denied"):
        sources(path=f"{tmp_path}/*")


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
    tmp_path: Path, path: str, message: str
) -> None:
    with pytest.raises(ReplayInputError) as refused:
        sources(path=path.replace("ROOT", str(tmp_path)))

    assert str(refused.value) == message.replace("ROOT", str(tmp_path))


@pytest.mark.parametrize("is_local", [True, False])
def test_a_uri_is_a_local_path_or_that_of_another_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_local: bool
) -> None:
    segment = log_of_one_record(tmp_path) / "00000000000000000000.log"
    if not is_local:
        # The library's own local file system stands for all that it can reach.
        monkeypatch.setattr("analytics.store.log_files.local_path", lambda source: None)
        monkeypatch.setattr("analytics.read.metadata_dirs.local_path", lambda source: None)

    (found,) = sources(path=tmp_path.as_uri())
    files, data = open_files(found), segment.read_bytes()

    assert found == f"{tmp_path.as_uri()}/__cluster_metadata-0"
    assert files.entries()[segment.name] == len(data)
    assert files.read(segment.name, 0, len(data) + 100) == data
    assert files.read(segment.name, 61, 5) == data[61:66]


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
def test_options_that_are_none_are_refused(options: dict[str, str], nodes: tuple[str, str]) -> None:
    with pytest.raises(ReplayInputError):
        parse_options({name: value.replace("LOG", nodes[0]) for name, value in options.items()})


def test_bounds_are_offsets_and_times(nodes: tuple[str, str]) -> None:
    options = parse_options(
        {
            "PATH": nodes[0],
            "STARTOFFSET": "5",
            "endOffset": "9",
            "startTime": "1970-01-01T00:00:01.0005",
            "endTime": "1970-01-01T01:00:02+01:00",
        }
    )

    assert options.selection.replay_offset == (5, 9)
    assert options.selection.replay_time_ms == (1001, 2000)
    assert parse_options({"path": nodes[0]}).selection is ALL


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("startOfset", "has no option startOfset, did you mean startOffset"),
        ("colour", "has no option colour; it has startOffset, endOffset, "),
    ],
)
def test_a_misspelt_option_is_refused(name: str, message: str, nodes: tuple[str, str]) -> None:
    with pytest.raises(ReplayInputError, match=message):
        parse_options({"path": nodes[0], name: "10"})


OF_TIME = datetime(1970, 1, 1, 0, 0, 1, 500, tzinfo=UTC)
"""Between two milliseconds, of which no part is lost."""


@pytest.mark.parametrize(
    ("bound", "expected", "filters"),
    [
        ("offset", (5, 6), [EqualTo(("offset",), 5)]),
        ("offset", (6, MAX_LONG), [GreaterThan(("offset",), 5)]),
        ("offset", (5, MAX_LONG), [GreaterThanOrEqual(("offset",), 5)]),
        ("offset", (MIN_LONG, 5), [LessThan(("offset",), 5)]),
        ("offset", (MIN_LONG, 6), [LessThanOrEqual(("offset",), 5)]),
        ("offset", ANY, [EqualTo(("offset",), None)]),
        ("offset", ANY, [Not(EqualTo(("offset",), 5))]),
        ("offset", ANY, [IsNull(("offset",))]),
        ("offset", ANY, [EqualTo(("partition",), 5)]),
        ("time_ms", (1000, MAX_LONG), [GreaterThan(("timestamp",), OF_TIME)]),
        ("time_ms", (MIN_LONG, 1001), [LessThan(("timestamp",), OF_TIME)]),
        ("types", {"A", "B"}, [In(("type",), ("A", "B"))]),
        ("types", {"B"}, [In(("type",), ("A", "B")), EqualTo(("type",), "B")]),
        ("types", set(), [EqualTo(("type",), "B"), EqualTo(("type",), "C")]),
    ],
)
def test_filters_bound_offsets_times_and_types(
    bound: str, expected: object, filters: list[Filter]
) -> None:
    assert getattr(narrowed(ALL, filters), bound) == expected

"""`jbod-storage format`: what it writes, what it refuses, and in which words."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from jbodlab.metadata.log import snapshots
from jbodlab.metadata.records.config_records import FeatureLevelRecord
from jbodlab.storage.directory import meta_properties
from jbodlab.storage.directory.meta_properties import MetaProperties
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary import directory_id

CLUSTER_ID = "41QSStLtR3qOekbX4ZlbHA"


class Result(NamedTuple):
    code: int
    out: str
    err: str


JbodStorage = Callable[..., Result]
NodeFile = Callable[..., Path]


def read(directory: Path) -> MetaProperties:
    return meta_properties.read(PosixFileSystem(), directory)


def formatted(tmp_path: Path) -> list[str]:
    return sorted(path.parent.name for path in tmp_path.glob("*/meta.properties"))


def test_every_directory_gets_its_ids_and_the_first_records(
    jbod_storage: JbodStorage, node_file: NodeFile, tmp_path: Path
) -> None:
    result = jbod_storage("format", "-t", CLUSTER_ID, "-c", node_file())

    assert (result.code, result.err) == (0, "")
    assert sorted(result.out.splitlines()) == [
        f"Formatting data directory {tmp_path}/d1 with metadata.version 4.3-IV0.",
        f"Formatting data directory {tmp_path}/d2 with metadata.version 4.3-IV0.",
        f"Formatting metadata directory {tmp_path}/meta with metadata.version 4.3-IV0.",
    ]
    found = [read(tmp_path / name) for name in ("d1", "d2", "meta")]
    assert {(meta.version, meta.cluster_id, meta.node_id) for meta in found} == {(1, CLUSTER_ID, 8)}
    ids = {meta.directory_id for meta in found}
    assert len(ids) == 3
    assert not any(found is None or directory_id.is_reserved(found) for found in ids)
    for name in ("d1", "d2", "meta"):
        records = snapshots.read_bootstrap(tmp_path / name / "bootstrap.checkpoint")
        assert [record for record, _ in records] == [
            FeatureLevelRecord(name="metadata.version", feature_level=30),
            FeatureLevelRecord(name="group.version", feature_level=1),
        ]


def test_log_dirs_without_a_metadata_dir_puts_the_metadata_into_the_first(
    jbod_storage: JbodStorage, node_file: NodeFile, tmp_path: Path
) -> None:
    config = node_file(**{"log.dirs": f"{tmp_path}/b,{tmp_path}/a", "metadata.log.dir": None})

    result = jbod_storage("format", "-t", CLUSTER_ID, "-c", config)

    assert sorted(result.out.splitlines()) == [
        f"Formatting data directory {tmp_path}/a with metadata.version 4.3-IV0.",
        f"Formatting metadata directory {tmp_path}/b with metadata.version 4.3-IV0.",
    ]


@pytest.mark.parametrize(
    ("arguments", "name", "level", "groups"),
    [
        (["-r", "3.7-IV2"], "3.7-IV2", 17, 0),
        (["--release-version", "3.7"], "3.7-IV4", 19, 0),
        (["--release-version=3.9"], "3.9-IV0", 21, 0),
        (["-r", "4.3-IV0"], "4.3-IV0", 30, 1),
        (["-f", "metadata.version=20"], "3.8-IV0", 20, 0),
        (["-f", "metadata.version=20", "-f", "group.version=1"], "3.8-IV0", 20, 1),
        (["-f", "group.version=0", "-f", "kraft.version=0"], "4.3-IV0", 30, 0),
    ],
)
def test_the_levels_of_features_can_be_chosen(
    jbod_storage: JbodStorage,
    node_file: NodeFile,
    tmp_path: Path,
    arguments: list[str],
    name: str,
    level: int,
    groups: int,
) -> None:
    result = jbod_storage("format", "-t", CLUSTER_ID, "-c", node_file(), *arguments)

    assert result.code == 0
    assert f"d1 with metadata.version {name}.\n" in result.out
    records = snapshots.read_bootstrap(tmp_path / "meta" / "bootstrap.checkpoint")
    levels = {"metadata.version": level} | ({"group.version": 1} if groups else {})
    assert [(r.record, r.version) for r in records] == [
        (FeatureLevelRecord(name=name, feature_level=number), 0) for name, number in levels.items()
    ]


def test_the_property_file_may_name_the_metadata_version(
    jbod_storage: JbodStorage, node_file: NodeFile
) -> None:
    config = node_file(**{"inter.broker.protocol.version": "3.8"})

    assert "metadata.version 3.8-IV0." in jbod_storage("format", "-t", "x", "-c", config).out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["-r", "3.6"],
            "metadata.version 3.6-IV2 is too old to be supported. The oldest with log directories "
            "is 3.7-IV2.",
        ),
        (
            ["-r", "4.4-IV0"],
            "metadata.version 4.4-IV0 is not yet stable. The latest supported is 4.3-IV0.",
        ),
        (
            ["-f", "metadata.version=20", "-r", "3.9"],
            "Use --release-version instead of --feature metadata.version=20 to avoid ambiguity.",
        ),
        (
            ["-f", "transaction.version=2"],
            "Cannot set transaction.version to 2: transactions are not supported, only level 0 is.",
        ),
        (
            ["-f", "eligible.leader.replicas.version=1"],
            "Cannot set eligible.leader.replicas.version to 1: eligible leader replicas are not "
            "supported, only level 0 is.",
        ),
        (
            ["-f", "kraft.version=1"],
            "Cannot set kraft.version to 1 unless KIP-853 configuration is present. Try removing "
            "the --feature flag for kraft.version.",
        ),
        (
            ["-f", "group"],
            "Can't parse feature=level string group: equals sign not found.",
        ),
        (
            ["-f", "group.version=x"],
            "Can't parse feature=level string group.version=x: unable to parse x as a short.",
        ),
        (
            ["-f", "foo.version=1"],
            "Unsupported feature: foo.version. Supported features are: "
            "eligible.leader.replicas.version, group.version, kraft.version, share.version, "
            "streams.version, transaction.version",
        ),
        (
            ["-S", "SCRAM-SHA-256=[name=alice,password=x]"],
            "--add-scram is not supported: clients are not authenticated.",
        ),
        (["-s"], "You can only use --standalone on a controller."),
        (
            ["-I", "100@localhost:9093:b4d9ExdORgaQq38CyHwWTA"],
            "--initial-controllers is not supported: jbodlab has no dynamic quorums; name the "
            "controller in controller.quorum.voters, such as 1@localhost:9093.",
        ),
    ],
)
def test_what_is_refused_is_named_and_nothing_is_formatted(
    jbod_storage: JbodStorage,
    node_file: NodeFile,
    tmp_path: Path,
    arguments: list[str],
    message: str,
) -> None:
    result = jbod_storage("format", "-t", CLUSTER_ID, "-c", node_file(), *arguments)

    assert result == (1, "", message + "\n")
    assert formatted(tmp_path) == []


def test_an_unknown_release_lists_the_known_ones(
    jbod_storage: JbodStorage, node_file: NodeFile
) -> None:
    result = jbod_storage("format", "-t", CLUSTER_ID, "-c", node_file(), "-r", "9.9")

    assert result.code == 1
    assert result.err.startswith(
        "Unknown metadata.version '9.9'. Supported metadata.version are: 3.7-IV2, 3.7-IV3, "
    )
    assert result.err.endswith(", 4.3-IV0\n")


def test_a_legacy_property_file_is_refused(jbod_storage: JbodStorage, node_file: NodeFile) -> None:
    config = node_file(**{"process.roles": None})

    assert jbod_storage("format", "-t", CLUSTER_ID, "-c", config) == (
        1,
        "",
        "The kafka configuration file appears to be for a legacy cluster. Formatting is only "
        "supported for clusters in KRaft mode.\n",
    )


def controller(tmp_path: Path, **changes: str | None) -> dict[str, str | None]:
    return {
        "process.roles": "controller",
        "node.id": "100",
        "listeners": "CONTROLLER://localhost:9093",
        "log.dirs": f"{tmp_path}/c",
        "metadata.log.dir": None,
        **changes,
    }


def test_a_controller_is_formatted(
    jbod_storage: JbodStorage, node_file: NodeFile, tmp_path: Path
) -> None:
    result = jbod_storage("format", "-t", "x", "-c", node_file(**controller(tmp_path)), "-N")

    assert (result.code, formatted(tmp_path)) == (0, ["c"])


def test_a_controller_without_voters_is_refused_by_naming_the_key(
    jbod_storage: JbodStorage, node_file: NodeFile, tmp_path: Path
) -> None:
    config = node_file(**controller(tmp_path, **{"controller.quorum.voters": None}))

    plain = jbod_storage("format", "-t", "x", "-c", config)
    standalone = jbod_storage("format", "-t", "x", "-c", config, "-s")
    without = jbod_storage("format", "-t", "x", "-c", config, "-N")

    assert plain.err == (
        "invalid value '' for configuration controller.quorum.voters: must name the controller, "
        "such as 1@localhost:9093; controller.quorum.bootstrap.servers has no effect\n"
    )
    assert standalone.err == (
        "--standalone is not supported: jbodlab has no dynamic quorums; name the controller in "
        "controller.quorum.voters, such as 1@localhost:9093.\n"
    )
    assert without.err == plain.err
    assert {plain.code, standalone.code, without.code} == {1}
    assert formatted(tmp_path) == []


@pytest.mark.parametrize("flags", [[], ["--standalone"], ["-N"]])
def test_the_property_file_of_a_node_with_both_roles_is_refused_with_the_edits_it_needs(
    jbod_storage: JbodStorage, node_file: NodeFile, tmp_path: Path, flags: list[str]
) -> None:
    """As in Kafka's quick start: both roles, and controllers by their addresses."""
    config = node_file(
        **{
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": None,
            "controller.quorum.bootstrap.servers": "localhost:9093",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "inter.broker.listener.name": "PLAINTEXT",
            "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            "controller.listener.names": "CONTROLLER",
        }
    )

    result = jbod_storage("format", "-t", CLUSTER_ID, "-c", config, *flags)

    assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
    assert result.err.startswith(
        "invalid value 'broker,controller' for configuration process.roles: a node has one role; "
        "write two property files"
    )
    for key in ("controller.quorum.voters=1@", "node.id", "listeners", "advertised.listeners"):
        assert key in result.err
    assert formatted(tmp_path) == []


def test_several_controllers_are_refused_before_anything_is_formatted(
    jbod_storage: JbodStorage, node_file: NodeFile, tmp_path: Path
) -> None:
    config = node_file(**{"controller.quorum.voters": "100@localhost:9093,101@localhost:9094"})

    assert jbod_storage("format", "-t", CLUSTER_ID, "-c", config) == (
        1,
        "",
        "invalid value '100,101' for configuration controller.quorum.voters: must name exactly "
        "one controller\n",
    )
    assert formatted(tmp_path) == []


def test_a_formatted_directory_stops_everything(
    jbod_storage: JbodStorage, node_file: NodeFile, tmp_path: Path
) -> None:
    jbod_storage("format", "-t", CLUSTER_ID, "-c", node_file())
    config = node_file(**{"log.dirs": f"{tmp_path}/d1,{tmp_path}/d2,{tmp_path}/d3"})

    result = jbod_storage("format", "-t", CLUSTER_ID, "-c", config)

    assert result == (
        1,
        "",
        f"Log directory {tmp_path}/d1 is already formatted. Use --ignore-formatted to ignore this "
        "directory and format the others.\n",
    )
    assert formatted(tmp_path) == ["d1", "d2", "meta"]


def test_ignore_formatted_formats_only_what_is_not(
    jbod_storage: JbodStorage, node_file: NodeFile, tmp_path: Path
) -> None:
    jbod_storage("format", "-t", CLUSTER_ID, "-c", node_file())
    before = {path: path.read_bytes() for path in tmp_path.glob("*/*")}
    config = node_file(**{"log.dirs": f"{tmp_path}/d1,{tmp_path}/d2,{tmp_path}/d3"})

    result = jbod_storage("format", "-g", "-t", CLUSTER_ID, "-c", config)
    again = jbod_storage("format", "--ignore-formatted", "-t", CLUSTER_ID, "-c", config)

    assert result.out == f"Formatting data directory {tmp_path}/d3 with metadata.version 4.3-IV0.\n"
    assert again == (0, "All of the log directories are already formatted.\n", "")
    assert {path: path.read_bytes() for path in before} == before


def test_another_cluster_id_is_refused(
    jbod_storage: JbodStorage, node_file: NodeFile, tmp_path: Path
) -> None:
    jbod_storage("format", "-t", CLUSTER_ID, "-c", node_file())

    result = jbod_storage("format", "-g", "-t", "other", "-c", node_file())

    assert result.code == 1
    assert result.err == (
        f"Invalid cluster.id in: {tmp_path}/d1/meta.properties. Expected other, but read "
        f"{CLUSTER_ID}\n"
    )


def test_another_node_id_is_refused(jbod_storage: JbodStorage, node_file: NodeFile) -> None:
    jbod_storage("format", "-t", CLUSTER_ID, "-c", node_file())

    result = jbod_storage("format", "-g", "-t", CLUSTER_ID, "-c", node_file(**{"node.id": "9"}))

    assert result.code == 1
    assert result.err.startswith("Stored node id 8 doesn't match previous node id 9 in ")


def test_an_unreadable_directory_is_told_and_left_out(
    jbod_storage: JbodStorage, node_file: NodeFile, tmp_path: Path
) -> None:
    (tmp_path / "d1").write_bytes(b"")

    result = jbod_storage("format", "-t", CLUSTER_ID, "-c", node_file())

    assert result.code == 0
    assert result.out.splitlines()[0] == (
        f"I/O error trying to read log directory {tmp_path}/d1. Ignoring..."
    )
    assert formatted(tmp_path) == ["d2", "meta"]


def test_only_unreadable_directories_are_an_error(
    jbod_storage: JbodStorage, node_file: NodeFile, tmp_path: Path
) -> None:
    for name in ("d1", "d2", "meta"):
        (tmp_path / name).write_bytes(b"")

    result = jbod_storage("format", "-t", CLUSTER_ID, "-c", node_file())

    assert (result.code, result.err) == (1, "No available log directories to format.\n")
    assert len(result.out.splitlines()) == 3


@pytest.mark.skipif(os.geteuid() == 0, reason="root is not stopped by permissions")
def test_a_directory_that_cannot_be_written_is_one_line(
    jbod_storage: JbodStorage, node_file: NodeFile, tmp_path: Path
) -> None:
    (tmp_path / "d1").mkdir(mode=0o555)

    result = jbod_storage("format", "-t", CLUSTER_ID, "-c", node_file())

    assert result.code == 1
    assert result.err.startswith(f"Error while writing meta.properties file {tmp_path}/d1: ")


def test_an_interrupted_format_is_completed(
    jbod_storage: JbodStorage, node_file: NodeFile, tmp_path: Path
) -> None:
    """Stopped in the second directory, before its meta.properties."""
    jbod_storage("format", "-t", CLUSTER_ID, "-c", node_file())
    first = (tmp_path / "d1" / "meta.properties").read_bytes()
    (tmp_path / "d2" / "meta.properties").unlink()
    (tmp_path / "d2" / "bootstrap.checkpoint.tmp").write_bytes(b"torn")
    (tmp_path / "meta" / "meta.properties").unlink()

    result = jbod_storage("format", "-g", "-t", CLUSTER_ID, "-c", node_file())

    assert result.code == 0
    assert formatted(tmp_path) == ["d1", "d2", "meta"]
    assert (tmp_path / "d1" / "meta.properties").read_bytes() == first
    assert len({read(tmp_path / name).directory_id for name in ("d1", "d2", "meta")}) == 3


def test_meta_properties_look_as_java_writes_them(
    jbod_storage: JbodStorage, node_file: NodeFile, tmp_path: Path
) -> None:
    jbod_storage("format", "-t", CLUSTER_ID, "-c", node_file())

    file = tmp_path / "d1" / "meta.properties"
    lines = file.read_text().splitlines()
    assert lines[0] == "#"
    assert lines[1].startswith("#")
    assert lines[2] == f"cluster.id={CLUSTER_ID}"
    assert lines[3].startswith("directory.id=")
    assert lines[4:] == ["node.id=8", "version=1"]
    assert stat.S_IMODE(file.stat().st_mode) & 0o600 == 0o600


def test_a_wrong_property_file_is_one_line(
    jbod_storage: JbodStorage, node_file: NodeFile, tmp_path: Path
) -> None:
    wrong = jbod_storage("format", "-t", "x", "-c", node_file(**{"node.id": "eight"}))
    missing = jbod_storage("format", "-t", "x", "-c", tmp_path / "missing")

    assert (wrong.code, missing.code) == (1, 1)
    assert wrong.err == "invalid value 'eight' for configuration node.id: expected an integer\n"
    assert missing.err == f"cannot read {tmp_path}/missing: No such file or directory\n"


def test_options_may_come_from_a_file(
    jbod_storage: JbodStorage, node_file: NodeFile, tmp_path: Path
) -> None:
    arguments = tmp_path / "arguments"
    arguments.write_text(f"format\n-t\n{CLUSTER_ID}\n--config={node_file()}\n")

    assert jbod_storage(f"@{arguments}").code == 0
    assert formatted(tmp_path) == ["d1", "d2", "meta"]

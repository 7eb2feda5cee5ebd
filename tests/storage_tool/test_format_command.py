"""`jbod-storage format`: what it writes, what it refuses, and in which words."""

from __future__ import annotations

import base64
import os
import stat
from pathlib import Path

import pytest

from jbodlab.metadata.log import snapshots
from jbodlab.metadata.records.config_records import FeatureLevelRecord
from jbodlab.metadata.records.security_records import UserScramCredentialRecord
from jbodlab.raft.batches import quorum_of
from jbodlab.raft.voters import VoterSet
from jbodlab.storage.directory import meta_properties
from jbodlab.storage.directory.meta_properties import MetaProperties
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary import directory_id, kafka_uuid
from tests.storage_tool.conftest import CLUSTER_ID, StorageTool


def read(directory: Path) -> MetaProperties:
    return meta_properties.read(PosixFileSystem(), directory)


def formatted(tmp_path: Path) -> list[str]:
    return sorted(path.parent.name for path in tmp_path.glob("*/meta.properties"))


def test_every_directory_gets_its_ids_and_the_first_records(tool: StorageTool) -> None:
    result = tool.format()

    assert (result.code, result.err) == (0, "")
    assert sorted(result.out.splitlines()) == [
        f"Formatting data directory {tool.folder}/d1 with metadata.version 4.3-IV0.",
        f"Formatting data directory {tool.folder}/d2 with metadata.version 4.3-IV0.",
        f"Formatting metadata directory {tool.folder}/meta with metadata.version 4.3-IV0.",
    ]
    found = [read(tool.folder / name) for name in ("d1", "d2", "meta")]
    assert {(meta.version, meta.cluster_id, meta.node_id) for meta in found} == {(1, CLUSTER_ID, 8)}
    ids = {meta.directory_id for meta in found}
    assert len(ids) == 3
    assert not any(found is None or directory_id.is_reserved(found) for found in ids)
    for name in ("d1", "d2", "meta"):
        records = snapshots.read_bootstrap(tool.folder / name / "bootstrap.checkpoint")
        assert [record for record, _ in records] == [
            FeatureLevelRecord(name="metadata.version", feature_level=30),
            FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1),
            FeatureLevelRecord(name="group.version", feature_level=1),
            FeatureLevelRecord(name="transaction.version", feature_level=2),
        ]


def test_log_dirs_without_a_metadata_dir_puts_the_metadata_into_the_first(
    tool: StorageTool,
) -> None:
    config = tool.node_file(
        **{"log.dirs": f"{tool.folder}/b,{tool.folder}/a", "metadata.log.dir": None}
    )

    result = tool.format(config=config)

    assert sorted(result.out.splitlines()) == [
        f"Formatting data directory {tool.folder}/a with metadata.version 4.3-IV0.",
        f"Formatting metadata directory {tool.folder}/b with metadata.version 4.3-IV0.",
    ]


@pytest.mark.parametrize(
    ("arguments", "name", "level", "elr", "groups", "transactions"),
    [
        (["-r", "3.7-IV2"], "3.7-IV2", 17, 0, 0, 0),
        (["--release-version", "3.7"], "3.7-IV4", 19, 0, 0, 0),
        (["--release-version=3.9"], "3.9-IV0", 21, 0, 0, 0),
        (["-r", "4.0-IV1"], "4.0-IV1", 23, 0, 1, 0),
        (["-r", "4.0-IV2"], "4.0-IV2", 24, 0, 1, 2),
        (["-r", "4.0-IV3"], "4.0-IV3", 25, 0, 1, 2),
        (["-r", "4.1-IV0"], "4.1-IV0", 26, 1, 1, 2),
        (["-r", "4.3-IV0"], "4.3-IV0", 30, 1, 1, 2),
        (["-f", "metadata.version=20"], "3.8-IV0", 20, 0, 0, 0),
        (["-f", "metadata.version=20", "-f", "group.version=1"], "3.8-IV0", 20, 0, 1, 0),
        (["-r", "4.0-IV1", "-f", "eligible.leader.replicas.version=1"], "4.0-IV1", 23, 1, 1, 0),
        (["-f", "eligible.leader.replicas.version=0"], "4.3-IV0", 30, 0, 1, 2),
        (["-f", "group.version=0", "-f", "kraft.version=0"], "4.3-IV0", 30, 1, 0, 2),
        (["-f", "transaction.version=0"], "4.3-IV0", 30, 1, 1, 0),
        (["-f", "transaction.version=1"], "4.3-IV0", 30, 1, 1, 1),
    ],
)
def test_the_levels_of_features_can_be_chosen(
    tool: StorageTool,
    arguments: list[str],
    name: str,
    level: int,
    elr: int,
    groups: int,
    transactions: int,
) -> None:
    result = tool.format(*arguments)

    assert result.code == 0
    assert f"d1 with metadata.version {name}.\n" in result.out
    records = snapshots.read_bootstrap(tool.folder / "meta" / "bootstrap.checkpoint")
    others = {
        "eligible.leader.replicas.version": elr,
        "group.version": groups,
        "transaction.version": transactions,
    }
    levels = {"metadata.version": level} | {key: number for key, number in others.items() if number}
    assert [(r.record, r.version) for r in records] == [
        (FeatureLevelRecord(name=name, feature_level=number), 0) for name, number in levels.items()
    ]


def test_the_property_file_may_name_the_metadata_version(tool: StorageTool) -> None:
    config = tool.node_file(**{"inter.broker.protocol.version": "3.8"})

    assert "metadata.version 3.8-IV0." in tool("format", "-t", "x", "-c", config).out


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
            ["-f", "share.version=1"],
            "Cannot set share.version to 1: share groups are not supported, only level 0 is.",
        ),
        (
            ["-r", "4.0-IV0", "-f", "eligible.leader.replicas.version=1"],
            "eligible.leader.replicas.version could not be set to 1 because it depends on "
            "metadata.version=23 (4.0-IV1)",
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
            ["-S", "SCRAM-SHA-256=[name=alice,password=x,iterations=100]"],
            "--add-scram: iterations 100 must be 4096 to 16384.",
        ),
        (["-s"], "You can only use --standalone on a controller."),
        (
            ["-I", "100@localhost:9093:b4d9ExdORgaQq38CyHwWTA"],
            "controller.quorum.voters names a static quorum: remove it from the file, or format "
            "without --standalone and --initial-controllers.",
        ),
    ],
)
def test_what_is_refused_is_named_and_nothing_is_formatted(
    tool: StorageTool, arguments: list[str], message: str
) -> None:
    result = tool.format(*arguments)

    assert result == (1, "", message + "\n")
    assert formatted(tool.folder) == []


def test_s24_format_add_scram(tool: StorageTool) -> None:
    argument = "SCRAM-SHA-256=[name=alice,password=alice-secret]"
    result = tool.format("-S", argument)

    assert result.code == 0
    for name in ("d1", "d2", "meta"):
        checkpoint = tool.folder / name / "bootstrap.checkpoint"
        assert stat.S_IMODE(checkpoint.stat().st_mode) == 0o600
        assert stat.S_IMODE(checkpoint.parent.stat().st_mode) == 0o700
        *_, (record, _) = snapshots.read_bootstrap(checkpoint)
        assert isinstance(record, UserScramCredentialRecord)
        assert record.name == "alice"
        for secret in (b"alice-secret", record.salt, record.stored_key, record.server_key):
            shown = {secret.decode("latin-1"), base64.b64encode(secret).decode()}
            assert not any(each in result.out + result.err for each in shown)


def test_an_unknown_release_lists_the_known_ones(tool: StorageTool) -> None:
    result = tool.format("-r", "9.9")

    assert result.code == 1
    assert result.err.startswith(
        "Unknown metadata.version '9.9'. Supported metadata.version are: 3.7-IV2, 3.7-IV3, "
    )
    assert result.err.endswith(", 4.3-IV0\n")


def test_a_legacy_property_file_is_refused(tool: StorageTool) -> None:
    config = tool.node_file(**{"process.roles": None})

    assert tool.format(config=config) == (
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


def test_a_controller_is_formatted(tool: StorageTool) -> None:
    result = tool("format", "-t", "x", "-c", tool.node_file(**controller(tool.folder)), "-N")

    assert (result.code, formatted(tool.folder)) == (0, ["c"])


def test_a_controller_without_any_controllers_is_refused_by_naming_the_key(
    tool: StorageTool,
) -> None:
    config = tool.node_file(**controller(tool.folder, **{"controller.quorum.voters": None}))

    for flag in ("-s", "-N"):
        result = tool("format", "-t", "x", "-c", config, flag)

        assert (result.code, result.err) == (
            1,
            "invalid value '' for configuration controller.quorum.voters: must name the "
            "controllers, such as 1@localhost:9093, unless controller.quorum.bootstrap.servers "
            "does\n",
        )
    assert formatted(tool.folder) == []


OTHER_ID, OWN_ID = "b4d9ExdORgaQq38CyHwWTA", "3Db5QLSqSZieL3rJBUUegA"
VOTERS = f"100@localhost:9093:{OWN_ID},101@[::1]:9193:{OTHER_ID}"


def dynamic(tool: StorageTool, **changes: str | None) -> str:
    """The property file of a controller whose voters are in the log."""
    return tool.node_file(
        **controller(
            tool.folder,
            **{
                "controller.quorum.voters": None,
                "controller.quorum.bootstrap.servers": "localhost:9093",
                "controller.listener.names": "CONTROLLER,CONTROLLER_GRPC",
                "listeners": "CONTROLLER://:9093,CONTROLLER_GRPC://:9094",
                **changes,
            },
        )
    )


def first_voters(folder: Path) -> tuple[VoterSet | None, int | None]:
    """Return the voters in the metadata directory, and the level of kraft.version."""
    (path,) = (folder / "c" / "__cluster_metadata-0").iterdir()
    assert path.name == "00000000000000000000-0000000000.checkpoint"
    return quorum_of(path.read_bytes())


def test_a_standalone_controller_is_the_only_voter_with_all_its_listeners(
    tool: StorageTool,
) -> None:
    config = dynamic(tool, **{"advertised.listeners": "CONTROLLER://one:19093"})

    result = tool("format", "-t", "x", "-c", config, "-s")

    assert result == (
        0,
        f"Formatting dynamic metadata voter directory {tool.folder}/c with metadata.version "
        "4.3-IV0.\n",
        "",
    )
    voters, level = first_voters(tool.folder)
    assert voters is not None
    (voter,) = voters.voters
    meta = read(tool.folder / "c")
    assert (voter.voter_id, voter.voter_directory_id) == (100, meta.directory_id)
    assert [(each.name, each.host, each.port) for each in voter.endpoints] == [
        ("CONTROLLER", "one", 19093),
        ("CONTROLLER_GRPC", "localhost", 9094),
    ]
    assert level == 1


def test_initial_controllers_are_all_of_a_list_and_give_this_one_its_directory_id(
    tool: StorageTool,
) -> None:
    result = tool("format", "-t", "x", "-c", dynamic(tool), "-I", VOTERS)

    assert (result.code, result.err) == (0, "")
    voters, _ = first_voters(tool.folder)
    assert voters is not None
    assert [str(key) for key in voters.keys] == [
        f"100:{kafka_uuid.parse(OWN_ID)}",
        f"101:{kafka_uuid.parse(OTHER_ID)}",
    ]
    assert [(each.name, each.host, each.port) for each in voters.endpoints(101)] == [
        ("CONTROLLER", "::1", 9193)
    ]
    meta = read(tool.folder / "c")
    assert meta.directory_id == kafka_uuid.parse(OWN_ID)


def test_a_controller_that_is_none_of_the_initial_ones_knows_them(tool: StorageTool) -> None:
    config = dynamic(tool, **{"node.id": "102"})

    result = tool("format", "-t", "x", "-c", config, "-I", VOTERS)

    assert result.out.startswith("Formatting dynamic metadata directory ")
    assert first_voters(tool.folder)[0] is not None


def test_a_later_controller_names_no_voters(tool: StorageTool) -> None:
    result = tool("format", "-t", "x", "-c", dynamic(tool), "-N")

    assert result.out.startswith("Formatting metadata directory ")
    assert not (tool.folder / "c" / "__cluster_metadata-0").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            [],
            "Because controller.quorum.voters is not set on this controller, you must specify one "
            "of the following: --standalone, --initial-controllers, or --no-initial-controllers.",
        ),
        (
            ["-s", "-f", "kraft.version=0"],
            "Cannot set kraft.version to 0 if KIP-853 configuration is present. Try removing the "
            "--feature flag for kraft.version.",
        ),
        (
            ["-s", "-r", "3.8"],
            "kraft.version could not be set to 1 because it depends on metadata.version=21 "
            "(3.9-IV0)",
        ),
        (
            ["-I", f"100@localhost:{OWN_ID}"],
            f"--initial-controllers 100@localhost:{OWN_ID}: expected id@host:port:directory-id.",
        ),
        (
            ["-I", "100@localhost:9093:AAAAAAAAAAAAAAAAAAAAAA"],
            "--initial-controllers 100@localhost:9093:AAAAAAAAAAAAAAAAAAAAAA: expected "
            "id@host:port:directory-id.",
        ),
        (
            ["-I", f"100@a:1:{OWN_ID},100@b:1:{OTHER_ID}"],
            f"--initial-controllers 100@a:1:{OWN_ID},100@b:1:{OTHER_ID}: a node id occurs twice.",
        ),
    ],
)
def test_voters_that_cannot_begin_a_quorum_are_named_and_nothing_is_formatted(
    tool: StorageTool, flags: list[str], message: str
) -> None:
    result = tool("format", "-t", "x", "-c", dynamic(tool), *flags)

    assert result == (1, "", message + "\n")
    assert formatted(tool.folder) == []


def test_kraft_version_is_no_feature_of_the_first_records(tool: StorageTool) -> None:
    tool("format", "-t", "x", "-c", dynamic(tool), "-s", "-f", "kraft.version=1")

    names = [
        record.name
        for record, _ in snapshots.read_bootstrap(tool.folder / "c" / "bootstrap.checkpoint")
        if isinstance(record, FeatureLevelRecord)
    ]
    assert "metadata.version" in names
    assert "kraft.version" not in names


@pytest.mark.parametrize("flags", [[], ["--standalone"], ["-N"]])
def test_the_property_file_of_a_node_with_both_roles_is_refused_with_the_edits_it_needs(
    tool: StorageTool, flags: list[str]
) -> None:
    """As in Kafka's quick start: both roles, and controllers by their addresses."""
    config = tool.node_file(
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

    result = tool.format(*flags, config=config)

    assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
    assert result.err.startswith(
        "invalid value 'broker,controller' for configuration process.roles: a node has one role; "
        "write two property files"
    )
    for key in ("controller.quorum.voters=1@", "node.id", "listeners", "advertised.listeners"):
        assert key in result.err
    assert formatted(tool.folder) == []


def test_several_controllers_with_one_listener_are_refused_before_anything_is_formatted(
    tool: StorageTool,
) -> None:
    config = tool.node_file(**{"controller.quorum.voters": "100@localhost:9093,101@localhost:9094"})

    assert tool.format(config=config) == (
        1,
        "",
        "invalid value 'CONTROLLER' for configuration controller.listener.names: must name two "
        "listeners in a quorum, the second one for brokers, such as CONTROLLER,CONTROLLER_GRPC; "
        "listeners of a controller must have both\n",
    )
    assert formatted(tool.folder) == []


def test_a_formatted_directory_stops_everything(tool: StorageTool) -> None:
    tool.format()
    config = tool.node_file(**{"log.dirs": f"{tool.folder}/d1,{tool.folder}/d2,{tool.folder}/d3"})

    result = tool.format(config=config)

    assert result == (
        1,
        "",
        f"Log directory {tool.folder}/d1 is already formatted. Use --ignore-formatted to ignore "
        "this directory and format the others.\n",
    )
    assert formatted(tool.folder) == ["d1", "d2", "meta"]


def test_ignore_formatted_formats_only_what_is_not(tool: StorageTool) -> None:
    tool.format()
    before = {path: path.read_bytes() for path in tool.folder.glob("*/*")}
    config = tool.node_file(**{"log.dirs": f"{tool.folder}/d1,{tool.folder}/d2,{tool.folder}/d3"})

    result = tool("format", "-g", "-t", CLUSTER_ID, "-c", config)
    again = tool("format", "--ignore-formatted", "-t", CLUSTER_ID, "-c", config)

    assert (
        result.out == f"Formatting data directory {tool.folder}/d3 with metadata.version 4.3-IV0.\n"
    )
    assert again == (0, "All of the log directories are already formatted.\n", "")
    assert {path: path.read_bytes() for path in before} == before


def test_another_cluster_id_is_refused(tool: StorageTool) -> None:
    tool.format()

    result = tool("format", "-g", "-t", "other", "-c", tool.node_file())

    assert result.code == 1
    assert result.err == (
        f"Invalid cluster.id in: {tool.folder}/d1/meta.properties. Expected other, but read "
        f"{CLUSTER_ID}\n"
    )


def test_another_node_id_is_refused(tool: StorageTool) -> None:
    tool.format()

    result = tool("format", "-g", "-t", CLUSTER_ID, "-c", tool.node_file(**{"node.id": "9"}))

    assert result.code == 1
    assert result.err.startswith("Stored node id 8 doesn't match previous node id 9 in ")


def test_an_unreadable_directory_is_told_and_left_out(tool: StorageTool) -> None:
    (tool.folder / "d1").write_bytes(b"")

    result = tool.format()

    assert result.code == 0
    assert result.out.splitlines()[0] == (
        f"I/O error trying to read log directory {tool.folder}/d1. Ignoring..."
    )
    assert formatted(tool.folder) == ["d2", "meta"]


def test_only_unreadable_directories_are_an_error(tool: StorageTool) -> None:
    for name in ("d1", "d2", "meta"):
        (tool.folder / name).write_bytes(b"")

    result = tool.format()

    assert (result.code, result.err) == (1, "No available log directories to format.\n")
    assert len(result.out.splitlines()) == 3


@pytest.mark.skipif(os.geteuid() == 0, reason="root is not stopped by permissions")
def test_a_directory_that_cannot_be_written_is_one_line(tool: StorageTool) -> None:
    (tool.folder / "d1").mkdir(mode=0o555)

    result = tool.format()

    assert result.code == 1
    assert result.err.startswith(f"Error while writing meta.properties file {tool.folder}/d1: ")


def test_an_interrupted_format_is_completed(tool: StorageTool) -> None:
    """Stopped in the second directory, before its meta.properties."""
    tool.format()
    first = (tool.folder / "d1" / "meta.properties").read_bytes()
    (tool.folder / "d2" / "meta.properties").unlink()
    (tool.folder / "d2" / "bootstrap.checkpoint.tmp").write_bytes(b"torn")
    (tool.folder / "meta" / "meta.properties").unlink()

    result = tool("format", "-g", "-t", CLUSTER_ID, "-c", tool.node_file())

    assert result.code == 0
    assert formatted(tool.folder) == ["d1", "d2", "meta"]
    assert (tool.folder / "d1" / "meta.properties").read_bytes() == first
    assert len({read(tool.folder / name).directory_id for name in ("d1", "d2", "meta")}) == 3


def test_meta_properties_look_as_java_writes_them(tool: StorageTool) -> None:
    tool.format()

    file = tool.folder / "d1" / "meta.properties"
    lines = file.read_text().splitlines()
    assert lines[0] == "#"
    assert lines[1].startswith("#")
    assert lines[2] == f"cluster.id={CLUSTER_ID}"
    assert lines[3].startswith("directory.id=")
    assert lines[4:] == ["node.id=8", "version=1"]
    assert stat.S_IMODE(file.stat().st_mode) & 0o600 == 0o600


def test_a_wrong_property_file_is_one_line(tool: StorageTool) -> None:
    wrong = tool("format", "-t", "x", "-c", tool.node_file(**{"node.id": "eight"}))
    missing = tool("format", "-t", "x", "-c", tool.folder / "missing")

    assert (wrong.code, missing.code) == (1, 1)
    assert wrong.err == "invalid value 'eight' for configuration node.id: expected an integer\n"
    assert missing.err == f"cannot read {tool.folder}/missing: No such file or directory\n"


def test_options_may_come_from_a_file(tool: StorageTool) -> None:
    arguments = tool.folder / "arguments"
    arguments.write_text(f"format\n-t\n{CLUSTER_ID}\n--config={tool.node_file()}\n")

    assert tool(f"@{arguments}").code == 0
    assert formatted(tool.folder) == ["d1", "d2", "meta"]

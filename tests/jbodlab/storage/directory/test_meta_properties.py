from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from jbodlab.storage.directory import meta_properties
from jbodlab.storage.directory.meta_properties import MetaProperties, read_ensemble, verify_ensemble
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.errors import FormatError
from jbodlab.vocabulary.ids import DirectoryId

FS = PosixFileSystem()
CLUSTER = "41QSStLtR3qOekbX4ZlbHA"
ID_1 = DirectoryId(kafka_uuid.parse("b4d9ExdORgaQq38CyHwWTA"))
ID_2 = DirectoryId(UUID("11111111-1111-4111-8111-111111111111"))


def meta(**changes):
    return MetaProperties(**{"cluster_id": CLUSTER, "node_id": 8, "directory_id": ID_1, **changes})


@pytest.fixture
def dirs(tmp_path):
    """Three formatted directories; the first is the metadata directory."""
    made = [tmp_path / name for name in ("d1", "d2", "d3")]
    for number, directory in enumerate(made):
        directory.mkdir()
        directory_id = DirectoryId(UUID(int=UUID(int=ID_2.int).int + number))
        meta_properties.write(FS, directory, meta(directory_id=directory_id))
    return made


def verify(dirs, **options):
    verify_ensemble(read_ensemble(FS, dirs), **{"node_id": 8, **options})


def failure(dirs, **options) -> str:
    with pytest.raises(FormatError) as raised:
        verify(dirs, **options)
    return str(raised.value)


def test_the_file_is_written_as_kafka_writes_it(tmp_path):
    meta_properties.write(FS, tmp_path, meta(), comments=("", "Thu Oct 10 10:11:12 UTC 2024"))

    assert (tmp_path / "meta.properties").read_text() == (
        "#\n#Thu Oct 10 10:11:12 UTC 2024\n"
        "cluster.id=41QSStLtR3qOekbX4ZlbHA\n"
        "directory.id=b4d9ExdORgaQq38CyHwWTA\n"
        "node.id=8\n"
        "version=1\n"
    )
    assert meta_properties.read(FS, tmp_path) == meta()


def test_version_0_calls_the_node_broker_and_requires_nothing():
    assert meta_properties.parse("broker.id=8\n") == MetaProperties(version=0, node_id=8)
    assert meta_properties.parse("") == MetaProperties(version=0)
    assert MetaProperties(version=0, node_id=8).to_properties() == {
        "broker.id": "8",
        "version": "0",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version=2", "Unknown meta.properties version number 2"),
        ("version=one", "Invalid meta.properties version string 'one'"),
        ("version=1\nnode.id=8", "cluster.id was not found."),
        ("version=1\ncluster.id=x", "node.id was not found."),
        ("version=1\ncluster.id=x\nnode.id=a", "Unable to read node.id as a base-10 number."),
        (
            "version=1\ncluster.id=x\nnode.id=8\ndirectory.id=short",
            "Unable to read directory.id as a Uuid: short",
        ),
        ("a=\\u00zz", "malformed"),
    ],
)
def test_malformed_content_is_a_format_error(text, message):
    with pytest.raises(FormatError, match=message.replace(".", r"\.")):
        meta_properties.parse(text)


def test_missing_unreadable_and_malformed_are_told_apart(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "meta.properties").write_bytes(b"\xff")

    with pytest.raises(FileNotFoundError):
        meta_properties.read(FS, tmp_path / "nothing")
    with pytest.raises(NotADirectoryError):
        meta_properties.read(FS, tmp_path / "file")
    with pytest.raises(FormatError):
        meta_properties.read(FS, tmp_path / "bad")


def test_directories_are_empty_failed_or_normal(dirs, tmp_path):
    (dirs[1] / "meta.properties").write_text("version=9")
    (tmp_path / "file").touch()
    (tmp_path / "unformatted").mkdir()

    found = read_ensemble(FS, [*dirs, tmp_path / "file", tmp_path / "unformatted"], dirs[2])

    assert found.metadata_log_dir == dirs[2]
    assert found.empty == (tmp_path / "unformatted",)
    assert set(found.failed) == {dirs[1], tmp_path / "file"}
    assert list(found.normal) == [dirs[0], dirs[2]]


def test_a_proper_node_is_accepted(dirs):
    verify(dirs)
    verify(dirs, node_id=None, cluster_id=CLUSTER)


def test_a_failed_directory_is_tolerated_unless_it_holds_the_metadata(dirs):
    (dirs[1] / "meta.properties").write_text("version=9")
    verify(dirs)

    (dirs[0] / "meta.properties").write_text("version=9")
    assert failure(dirs) == (
        f"Encountered I/O error in metadata log directory {dirs[0]}. Cannot continue."
    )


def test_an_unformatted_directory_is_fatal_but_not_for_the_tool_that_formats(dirs):
    (dirs[1] / "meta.properties").unlink()

    assert failure(dirs) == (
        f"No `meta.properties` found in {dirs[1]} "
        "(have you run `kafka-storage.sh` to format the directory?)"
    )
    verify(dirs, require_formatted=False)


def test_no_normal_directory_at_all(dirs):
    for directory in dirs:
        (directory / "meta.properties").unlink()

    assert failure(dirs) == "No readable meta.properties files found."
    verify(dirs, require_formatted=False)


def test_cluster_ids_must_agree(dirs):
    meta_properties.write(FS, dirs[1], meta(cluster_id="other"))

    assert failure(dirs) == (
        f"Invalid cluster.id in: {dirs[1]}/meta.properties. Expected {CLUSTER}, but read other"
    )
    assert failure(dirs[:1], cluster_id="mine").endswith(f"Expected mine, but read {CLUSTER}")


def test_node_ids_must_agree_with_the_configured_one(dirs):
    assert failure(dirs, node_id=9).startswith(
        f"Stored node id 8 doesn't match previous node id 9 in {dirs[0]}/meta.properties. If you "
        "moved your data, make sure your configured node id matches."
    )
    meta_properties.write(FS, dirs[2], meta(node_id=9))
    assert failure(dirs, node_id=None).startswith("Stored node id 9 doesn't match previous")


def test_reserved_directory_ids_are_refused(dirs):
    meta_properties.write(FS, dirs[1], meta(directory_id=DirectoryId(UUID(int=99))))

    assert failure(dirs) == (
        f"Invalid resrved directory ID AAAAAAAAAAAAAAAAAAAAYw found in {dirs[1]}"
    )


def test_directory_ids_are_unique(dirs):
    meta_properties.write(FS, dirs[0], meta())
    meta_properties.write(FS, dirs[2], meta())

    assert failure(dirs) == (
        "Duplicate directory ID b4d9ExdORgaQq38CyHwWTA found. "
        f"It was the ID of {dirs[0]}, but also of {dirs[2]}"
    )


def test_a_metadata_log_outside_its_directory_is_refused(dirs):
    (dirs[0] / "__cluster_metadata-0").mkdir()
    verify(dirs)

    (dirs[1] / "__cluster_metadata-0").mkdir()
    assert failure(dirs) == (
        f"Found unexpected metadata location in data directory `{dirs[1]}/__cluster_metadata-0` "
        f"(the configured metadata directory is {dirs[0]})."
    )


def test_version_0_without_ids_is_refused(dirs):
    (dirs[1] / "meta.properties").write_text(f"version=0\ncluster.id={CLUSTER}\n")
    assert failure(dirs) == f"Error: node ID not found in {dirs[1]}"

    (dirs[1] / "meta.properties").write_text("version=0\nbroker.id=8\n")
    assert failure(dirs) == f"Error: cluster ID not found in {dirs[1]}"


def test_paths_are_kept_as_configured():
    found = read_ensemble(FS, [Path("/no/such/b"), Path("/no/such/a")])

    assert found.metadata_log_dir == Path("/no/such/b")
    assert found.empty == (Path("/no/such/a"), Path("/no/such/b"))

"""Which logs an input names, whose they are, and what they are called."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

import pytest

from analytics.errors import ReplayInputError
from analytics.read.log_copies import LogCopy, check_label, find_copies, is_wanted, labelled
from analytics.read.named_logs import look
from analytics.store.archives import unpack
from analytics.store.patterns import expand
from analytics.store.store import Store

METADATA = "__cluster_metadata-0"
SEGMENT = "00000000000000000000.log"


def log_at(folder: Path, cluster_id: str | None = None) -> Path:
    """Make a directory that looks like a metadata log."""
    (folder / METADATA).mkdir(parents=True)
    (folder / METADATA / SEGMENT).write_bytes(b"12345")
    if cluster_id is not None:
        (folder / "meta.properties").write_text(f"version=1\ncluster.id={cluster_id}\nnode.id=1\n")
    return folder


def copy(source: str, cluster_id: str | None = None) -> LogCopy:
    return LogCopy(
        source=source, folder=source, cluster_id=cluster_id, size_bytes=0, stamp=((source, 0, 0),)
    )


def labels(*found: tuple[str | None, LogCopy]) -> dict[str, list[str]]:
    return {label: [one.source for one in own] for label, own in labelled(found).items()}


def test_a_pattern_names_what_it_matches_name_by_name(tmp_path: Path) -> None:
    for name in ("b", "a", ".hidden"):
        log_at(tmp_path / name)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")

    found = expand(f"{tmp_path}/*/{METADATA}")

    assert found == (f"{tmp_path}/a/{METADATA}", f"{tmp_path}/b/{METADATA}")
    uri = tmp_path.as_uri()
    assert expand(f"{uri}/[ab]") == (f"{uri}/a", f"{uri}/b")
    assert expand(f"{tmp_path}/nowhere/*") == ()
    assert expand(str(tmp_path / "a")) == (str(tmp_path / "a"),)


def test_the_id_is_that_of_the_meta_properties_beside_the_log(tmp_path: Path) -> None:
    log_at(tmp_path, "kVd9ZwzAQzS8nkp0ZvvVvg")

    for source in (tmp_path, tmp_path / METADATA):
        (found,) = find_copies(str(source))
        assert (found.cluster_id, found.size_bytes) == ("kVd9ZwzAQzS8nkp0ZvvVvg", 5)
        assert [(name, size) for name, size, _ in found.stamp] == [(SEGMENT, 5)]


def test_a_cluster_is_called_by_its_name_else_its_id_else_the_part_of_the_path_that_tells() -> None:
    found = labels(
        ("named", copy("s3://b/x/named", "id1")),
        (None, copy("s3://b/x/with-id", "id2")),
        (None, copy(f"s3://b/eu/prod/{METADATA}")),
        (None, copy(f"s3://b/us/prod/{METADATA}")),
    )

    assert found == {
        "named": ["s3://b/x/named"],
        "id2": ["s3://b/x/with-id"],
        "eu": [f"s3://b/eu/prod/{METADATA}"],
        "us": [f"s3://b/us/prod/{METADATA}"],
    }
    assert list(labels((None, copy(f"/data/kraft/{METADATA}")))) == ["kraft"]
    archives = (None, copy("/in/a 1.tar.gz!m")), (None, copy("/in/b/2.zip!m"))
    assert list(labels(*archives)) == ["a-1", "b.2"]


def test_several_inputs_of_one_name_or_id_are_copies_of_one_log() -> None:
    assert labels(
        ("one", copy("/a")), ("one", copy("/b")), (None, copy("/c", "id")), (None, copy("/d", "id"))
    ) == {"one": ["/a", "/b"], "id": ["/c", "/d"]}
    assert labels(("one", copy("/a")), ("one", copy("/a"))) == {"one": ["/a"]}


def test_a_label_that_readers_would_take_for_a_number_is_none() -> None:
    numbers = (None, copy("/in/1")), (None, copy("/in/2024-01-01"))
    assert list(labels(*numbers)) == ["cluster-1", "cluster-2024-01-01"]
    for label in ("7", "1e5", "nan", "2024-01-01", "a/b", "", "a b"):
        with pytest.raises(ReplayInputError, match="does not do as the name of a cluster"):
            check_label(label)
    assert check_label("prod-eu.1") == "prod-eu.1"


def test_two_clusters_under_one_label_are_refused() -> None:
    with pytest.raises(ReplayInputError, match="would both be cluster a-b"):
        labels((None, copy("/in/a b")), (None, copy("/in/a-b")))
    with pytest.raises(ReplayInputError, match="would both be cluster a"):
        labels(("a", copy("/x")), (None, copy("/a")))
    with pytest.raises(ReplayInputError, match=r"\(cluster.id p and q\)"):
        labels(("a", copy("/x", "p")), ("a", copy("/y", "q")))


def test_a_name_stands_before_an_input_unless_a_file_is_called_so(tmp_path: Path) -> None:
    log_at(tmp_path / "x")
    log_at(tmp_path / "dt=1")

    (found,) = look([f"prod={tmp_path}/x"]).found
    assert (found[0], found[1].source) == ("prod", f"{tmp_path}/x/{METADATA}")
    (found,) = look([f"{tmp_path}/dt=1"]).found
    assert found[0] is None


def test_an_input_that_names_nothing_is_refused_and_what_a_pattern_finds_besides_is_not(
    tmp_path: Path,
) -> None:
    log_at(tmp_path / "a")
    (tmp_path / "notes").mkdir()

    assert len(look([f"{tmp_path}/*"]).found) == 1
    for source in (f"{tmp_path}/notes", f"{tmp_path}/nothing", f"{tmp_path}/n*", f"{tmp_path}/x*"):
        with pytest.raises(ReplayInputError, match=r"^input "):
            look([source])


def packed(path: Path, files: dict[str, bytes]) -> Path:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in files.items():
                archive.writestr(name, data)
        return path
    with tarfile.open(path, "w:gz") as archive_tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive_tar.addfile(info, io.BytesIO(data))
    return path


@pytest.mark.parametrize("name", ["node.tar.gz", "node.tgz", "node.zip"])
def test_of_an_archive_only_the_metadata_log_is_unpacked(tmp_path: Path, name: str) -> None:
    archive = packed(
        tmp_path / name,
        {
            "data/orders-0/" + SEGMENT: b"records",
            f"data/{METADATA}/{SEGMENT}": b"metadata",
            f"data/{METADATA}/leader-epoch-checkpoint": b"0",
            "data/meta.properties": b"cluster.id=abc\n",
            f"../../out/{METADATA}/{SEGMENT}": b"outside",
        },
    )
    store = Store(str(tmp_path / "store"))

    found = unpack(str(archive), store, "0", lambda member: is_wanted(member, anywhere=False))

    assert [(one.member, one.properties) for one in found] == [
        (f"data/{METADATA}", "cluster.id=abc\n"),
        (f"out/{METADATA}", None),
    ]
    assert {file.name: store.read(file.name) for file in store.files_in()} == {
        f"0/0/{SEGMENT}": b"metadata",
        f"0/1/{SEGMENT}": b"outside",
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "store"])


def test_a_folder_of_another_name_is_a_log_if_it_is_no_partition() -> None:
    assert is_wanted(PurePosixPath(f"copied/{SEGMENT}"), anywhere=True)
    assert is_wanted(PurePosixPath(SEGMENT), anywhere=True)
    assert not is_wanted(PurePosixPath(f"copied/{SEGMENT}"), anywhere=False)
    assert not is_wanted(PurePosixPath(f"orders-0/{SEGMENT}"), anywhere=True)
    assert not is_wanted(PurePosixPath("copied/notes.txt"), anywhere=True)


@pytest.mark.parametrize("name", ["node.tar.gz", "node.zip"])
def test_an_archive_that_is_cut_short_is_an_error(tmp_path: Path, name: str) -> None:
    whole = packed(tmp_path / name, {f"{METADATA}/{SEGMENT}": bytes(range(256)) * 100})
    whole.write_bytes(whole.read_bytes()[:-40])

    with pytest.raises(OSError):  # noqa: PT011 - the libraries have words of their own
        unpack(str(whole), Store(str(tmp_path / "store")), "0", lambda member: True)


def test_a_file_that_is_an_archive_by_its_name_only_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "no.zip").write_bytes(b"hello\n")

    with pytest.raises(OSError, match="not a zip file"):
        unpack(str(tmp_path / "no.zip"), Store(str(tmp_path)), "x", lambda _: True)

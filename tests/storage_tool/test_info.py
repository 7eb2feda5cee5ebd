"""`jbod-storage info`: its blocks, its problems, its exit code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Result(NamedTuple):
    code: int
    out: str
    err: str


JbodStorage = Callable[..., Result]
NodeFile = Callable[..., Path]

META = "version=1\ncluster.id={cluster}\nnode.id={node}\ndirectory.id={directory}\n"
DIRECTORY_IDS = ("b4d9ExdORgaQq38CyHwWTA", "P2aL9r4sSqqyt7bC0uierg", "e6umYSUsQyq7jUUzL9iXMQ")


def make(tmp_path: Path, *names: str, node: int = 8, cluster: str = "x") -> None:
    for name, directory_id in zip(names, DIRECTORY_IDS, strict=False):
        (tmp_path / name).mkdir()
        (tmp_path / name / "meta.properties").write_text(
            META.format(cluster=cluster, node=node, directory=directory_id)
        )


def test_formatted_directories_are_listed_with_the_metadata_of_the_first(
    jbod_storage: JbodStorage, node_file: NodeFile, tmp_path: Path
) -> None:
    make(tmp_path, "d1", "d2", "meta")

    assert jbod_storage("info", "-c", node_file()) == (
        0,
        "Found log directories:\n"
        f"  {tmp_path}/d1\n  {tmp_path}/d2\n  {tmp_path}/meta\n"
        "\n"
        "Found metadata: {cluster.id=x, directory.id=b4d9ExdORgaQq38CyHwWTA, node.id=8, version=1}"
        "\n\n",
        "",
    )


def test_one_directory_and_one_problem_are_singular(
    jbod_storage: JbodStorage, node_file: NodeFile, tmp_path: Path
) -> None:
    (tmp_path / "d1").mkdir()
    config = node_file(**{"log.dirs": f"{tmp_path}/d1", "metadata.log.dir": None})

    assert jbod_storage("info", "--config", config) == (
        1,
        f"Found log directory:\n  {tmp_path}/d1\n\n"
        f"Found problem:\n  {tmp_path}/d1 is not formatted.\n\n",
        "",
    )


def test_every_kind_of_bad_directory_is_a_problem(
    jbod_storage: JbodStorage, node_file: NodeFile, tmp_path: Path
) -> None:
    make(tmp_path, "meta")
    (tmp_path / "d2").write_bytes(b"")
    (tmp_path / "d3").mkdir()
    (tmp_path / "d3" / "meta.properties").write_text("version=7\n")
    config = node_file(**{"log.dirs": f"{tmp_path}/d1,{tmp_path}/d2,{tmp_path}/d3"})

    result = jbod_storage("info", "-c", config)

    assert result.code == 1
    assert result.out.endswith(
        "Found problems:\n"
        f"  {tmp_path}/d1 does not exist\n"
        f"  {tmp_path}/d2 is not a directory\n"
        f"  Error loading {tmp_path}/d3/meta.properties: "
        "Unknown meta.properties version number 7\n"
        "\n"
    )
    assert result.out.startswith(f"Found log directories:\n  {tmp_path}/d3\n  {tmp_path}/meta\n\n")


def test_mismatched_ids_are_problems(
    jbod_storage: JbodStorage, node_file: NodeFile, tmp_path: Path
) -> None:
    make(tmp_path, "d1", "d2")
    make(tmp_path, "meta", node=9, cluster="y")

    result = jbod_storage("info", "-c", node_file())

    assert result.code == 1
    assert "  Mismatched cluster IDs between storage directories.\n" in result.out
    assert "  Mismatched node IDs between storage directories.\n" in result.out


def test_legacy_directories_do_not_fit_a_kraft_file(
    jbod_storage: JbodStorage, node_file: NodeFile, tmp_path: Path
) -> None:
    make(tmp_path, "d1", "d2")
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta" / "meta.properties").write_text("version=0\nbroker.id=8\n")

    kraft = jbod_storage("info", "-c", node_file())
    legacy = jbod_storage("info", "-c", node_file(**{"process.roles": None}))

    assert (
        "The kafka configuration file appears to be for a cluster in KRaft mode, but the "
        "directories are formatted for legacy mode." in kraft.out
    )
    assert (
        "The kafka configuration file appears to be for a legacy cluster, but the directories are "
        "formatted for a cluster in KRaft mode." in legacy.out
    )
    assert (kraft.code, legacy.code) == (1, 1)


def test_no_directories_at_all(jbod_storage: JbodStorage, node_file: NodeFile) -> None:
    config = node_file(**{"log.dirs": "", "metadata.log.dir": None})

    assert jbod_storage("info", "-c", config) == (0, "No directories specified.\n", "")

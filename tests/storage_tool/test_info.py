"""`jbod-storage info`: its blocks, its problems, its exit code."""

from __future__ import annotations

from pathlib import Path

from tests.storage_tool.conftest import StorageTool

META = "version=1\ncluster.id={cluster}\nnode.id={node}\ndirectory.id={directory}\n"
DIRECTORY_IDS = ("b4d9ExdORgaQq38CyHwWTA", "P2aL9r4sSqqyt7bC0uierg", "e6umYSUsQyq7jUUzL9iXMQ")


def make(tmp_path: Path, *names: str, node: int = 8, cluster: str = "x") -> None:
    for name, directory_id in zip(names, DIRECTORY_IDS, strict=False):
        (tmp_path / name).mkdir()
        (tmp_path / name / "meta.properties").write_text(
            META.format(cluster=cluster, node=node, directory=directory_id)
        )


def test_formatted_directories_are_listed_with_the_metadata_of_the_first(tool: StorageTool) -> None:
    make(tool.folder, "d1", "d2", "meta")

    assert tool("info", "-c", tool.node_file()) == (
        0,
        "Found log directories:\n"
        f"  {tool.folder}/d1\n  {tool.folder}/d2\n  {tool.folder}/meta\n"
        "\n"
        "Found metadata: {cluster.id=x, directory.id=b4d9ExdORgaQq38CyHwWTA, node.id=8, version=1}"
        "\n\n",
        "",
    )


def test_one_directory_and_one_problem_are_singular(tool: StorageTool) -> None:
    (tool.folder / "d1").mkdir()
    config = tool.node_file(**{"log.dirs": f"{tool.folder}/d1", "metadata.log.dir": None})

    assert tool("info", "--config", config) == (
        1,
        f"Found log directory:\n  {tool.folder}/d1\n\n"
        f"Found problem:\n  {tool.folder}/d1 is not formatted.\n\n",
        "",
    )


def test_every_kind_of_bad_directory_is_a_problem(tool: StorageTool) -> None:
    make(tool.folder, "meta")
    (tool.folder / "d2").write_bytes(b"")
    (tool.folder / "d3").mkdir()
    (tool.folder / "d3" / "meta.properties").write_text("version=7\n")
    config = tool.node_file(**{"log.dirs": f"{tool.folder}/d1,{tool.folder}/d2,{tool.folder}/d3"})

    result = tool("info", "-c", config)

    assert result.code == 1
    assert result.out.endswith(
        "Found problems:\n"
        f"  {tool.folder}/d1 does not exist\n"
        f"  {tool.folder}/d2 is not a directory\n"
        f"  Error loading {tool.folder}/d3/meta.properties: "
        "Unknown meta.properties version number 7\n"
        "\n"
    )
    assert result.out.startswith(
        f"Found log directories:\n  {tool.folder}/d3\n  {tool.folder}/meta\n\n"
    )


def test_mismatched_ids_are_problems(tool: StorageTool) -> None:
    make(tool.folder, "d1", "d2")
    make(tool.folder, "meta", node=9, cluster="y")

    result = tool("info", "-c", tool.node_file())

    assert result.code == 1
    assert "  Mismatched cluster IDs between storage directories.\n" in result.out
    assert "  Mismatched node IDs between storage directories.\n" in result.out


def test_legacy_directories_do_not_fit_a_kraft_file(tool: StorageTool) -> None:
    make(tool.folder, "d1", "d2")
    (tool.folder / "meta").mkdir()
    (tool.folder / "meta" / "meta.properties").write_text("version=0\nbroker.id=8\n")

    kraft = tool("info", "-c", tool.node_file())
    legacy = tool("info", "-c", tool.node_file(**{"process.roles": None}))

    assert (
        "The kafka configuration file appears to be for a cluster in KRaft mode, but the "
        "directories are formatted for legacy mode." in kraft.out
    )
    assert (
        "The kafka configuration file appears to be for a legacy cluster, but the directories are "
        "formatted for a cluster in KRaft mode." in legacy.out
    )
    assert (kraft.code, legacy.code) == (1, 1)


def test_no_directories_at_all(tool: StorageTool) -> None:
    config = tool.node_file(**{"log.dirs": "", "metadata.log.dir": None})

    assert tool("info", "-c", config) == (0, "No directories specified.\n", "")

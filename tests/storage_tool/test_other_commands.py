"""random-uuid, version-mapping, feature-dependencies, and wrong arguments."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jbodlab.vocabulary import kafka_uuid
from tests.storage_tool.conftest import StorageTool


def test_random_ids_are_22_characters_and_never_look_like_an_option(tool: StorageTool) -> None:
    texts = [tool("random-uuid").out for _ in range(300)]

    assert len(set(texts)) == 300
    for text in texts:
        assert len(text) == 23
        assert text[0] != "-"
        assert kafka_uuid.to_text(kafka_uuid.parse(text.strip())) == text.strip()


@pytest.mark.process
def test_random_uuid_imports_nothing_heavy() -> None:
    program = (
        "import sys; from storage_tool.__main__ import main; main(['random-uuid']);"
        "print(sorted(m for m in sys.modules if m.split('.')[0] in"
        " ('kio', 'grpc', 'asyncio', 'uvloop', 'google')"
        " or m.startswith('jbodlab.metadata.records')))"
    )

    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines()[1] == "[]"


@pytest.mark.parametrize(
    ("arguments", "first", "groups", "transactions", "elr"),
    [
        ([], "metadata.version=30 (4.3-IV0)", 1, 2, 1),
        (["-r", "3.7"], "metadata.version=19 (3.7)", 0, 0, 0),
        (["--release-version", "3.9-IV0"], "metadata.version=21 (3.9-IV0)", 0, 0, 0),
        (["--release-version", "4.0-IV0"], "metadata.version=22 (4.0-IV0)", 1, 0, 0),
    ],
)
def test_version_mapping_shows_the_levels_that_format_writes(
    tool: StorageTool, arguments: list[str], first: str, groups: int, transactions: int, elr: int
) -> None:
    assert tool("version-mapping", *arguments) == (
        0,
        f"{first}\n"
        "kraft.version=0\n"
        f"transaction.version={transactions}\n"
        f"group.version={groups}\n"
        f"eligible.leader.replicas.version={elr}\n"
        "share.version=0\n"
        "streams.version=0\n",
        "",
    )


def test_version_mapping_of_an_unknown_release(tool: StorageTool) -> None:
    result = tool("version-mapping", "-r", "X")

    assert result.code == 1
    assert result.err.startswith("Unknown metadata.version 'X'. Supported metadata.version are: ")


def test_feature_dependencies(tool: StorageTool) -> None:
    features = ["metadata.version=17", "transaction.version=2", "kraft.version=1"]
    arguments = [word for feature in features for word in ("-f", feature)]

    assert tool("feature-dependencies", *arguments) == (
        0,
        "metadata.version=17 (3.7-IV2) has no dependencies.\n"
        "transaction.version=2 has no dependencies.\n"
        "kraft.version=1 requires:\n"
        "    metadata.version=21 (3.9-IV0)\n",
        "",
    )


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        ("group.version=x", "Invalid version format: x for feature group.version"),
        ("metadata.version=99", "Unknown metadata.version 99"),
        ("foo=1", "Unknown feature: foo"),
        ("group.version=9", "Feature level 9 is not supported for feature group.version"),
    ],
)
def test_unknown_feature_levels(tool: StorageTool, feature: str, message: str) -> None:
    assert tool("feature-dependencies", "-f", feature) == (1, "", message + "\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "jbod-storage: error: "),
        (["frmat"], "jbod-storage: error: "),
        (["info"], "jbod-storage info: error: the following arguments are required: -c/--config"),
        (["format", "-c", "x"], "jbod-storage format: error: the following arguments are required"),
        (["format", "-t", "x", "-c", "y", "-s", "-N"], "not allowed with argument"),
        (["format", "--clus", "x", "-c", "y"], "jbod-storage format: error: "),
    ],
)
def test_wrong_arguments_print_usage_and_end_with_1(
    tool: StorageTool, arguments: list[str], message: str
) -> None:
    result = tool(*arguments)

    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("usage: jbod-storage")
    assert message in result.err


def test_help_is_no_error(tool: StorageTool) -> None:
    result = tool("format", "--help")

    assert (result.code, result.err) == (0, "")
    assert "--ignore-formatted" in result.out

"""random-uuid, version-mapping, feature-dependencies, and wrong arguments."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from jbodlab.vocabulary import kafka_uuid


class Result(NamedTuple):
    code: int
    out: str
    err: str


JbodStorage = Callable[..., Result]


def test_random_ids_are_22_characters_and_never_look_like_an_option(
    jbod_storage: JbodStorage,
) -> None:
    texts = [jbod_storage("random-uuid").out for _ in range(300)]

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
    ("arguments", "first", "groups"),
    [
        ([], "metadata.version=30 (4.3-IV0)", 1),
        (["-r", "3.7"], "metadata.version=19 (3.7)", 0),
        (["--release-version", "3.9-IV0"], "metadata.version=21 (3.9-IV0)", 0),
        (["--release-version", "4.0-IV0"], "metadata.version=22 (4.0-IV0)", 1),
    ],
)
def test_version_mapping_shows_the_levels_that_format_writes(
    jbod_storage: JbodStorage, arguments: list[str], first: str, groups: int
) -> None:
    assert jbod_storage("version-mapping", *arguments) == (
        0,
        f"{first}\n"
        "kraft.version=0\n"
        "transaction.version=0\n"
        f"group.version={groups}\n"
        "eligible.leader.replicas.version=0\n"
        "share.version=0\n"
        "streams.version=0\n",
        "",
    )


def test_version_mapping_of_an_unknown_release(jbod_storage: JbodStorage) -> None:
    result = jbod_storage("version-mapping", "-r", "X")

    assert result.code == 1
    assert result.err.startswith("Unknown metadata.version 'X'. Supported metadata.version are: ")


def test_feature_dependencies(jbod_storage: JbodStorage) -> None:
    features = ["metadata.version=17", "transaction.version=2", "kraft.version=1"]
    arguments = [word for feature in features for word in ("-f", feature)]

    assert jbod_storage("feature-dependencies", *arguments) == (
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
def test_unknown_feature_levels(jbod_storage: JbodStorage, feature: str, message: str) -> None:
    assert jbod_storage("feature-dependencies", "-f", feature) == (1, "", message + "\n")


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
    jbod_storage: JbodStorage, arguments: list[str], message: str
) -> None:
    result = jbod_storage(*arguments)

    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("usage: jbod-storage")
    assert message in result.err


def test_help_is_no_error(jbod_storage: JbodStorage) -> None:
    result = jbod_storage("format", "--help")

    assert (result.code, result.err) == (0, "")
    assert "--ignore-formatted" in result.out

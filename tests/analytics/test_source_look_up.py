"""Spark's look-up of formats in a Python that has not what ours needs, beside somebody else's."""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from pathlib import Path

import pytest

from analytics.source.requirements import FOR_REPLAY
from tests.analytics.commands import ROOT, python

OTHER = """
from pyspark.sql.datasource import DataSource

class DefaultSource(DataSource):
    @classmethod
    def name(cls):
        return "zother"

    def schema(self):
        return "a int"
"""

PYTHON = """
import importlib, importlib.abc, json, sys

hidden, versions, attributes = json.loads(sys.argv[1])

class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
for name, version in versions.items():
    importlib.import_module(name).__version__ = version
for name, attribute in attributes.items():
    delattr(importlib.import_module(name), attribute)
"""

LOOK_UP = """
import io
from pyspark.serializers import read_int
from pyspark.sql.worker import lookup_data_sources
from pyspark.worker_util import pickleSer

out = io.BytesIO()
lookup_data_sources._main(io.BytesIO(), out)
out.seek(0)
sources = {}
for _ in range(read_int(out)):
    name = out.read(read_int(out)).decode()
    sources[name] = pickleSer._read_with_length(out)
said = []
for use in (lambda s: s.schema(), lambda s: s.reader(None), lambda s: s.streamReader(None)):
    try:
        use(sources["kraft-metadata"]({"path": "/nowhere"}))
    except Exception as error:
        said.append(str(error))
print(json.dumps([sorted(sources), sources["zother"]({}).schema(), said]))
"""

IMPORT = """
before = set(sys.modules)
import pyspark_kraft_metadata
imported = {name.partition(".")[0] for name in set(sys.modules) - before}
try:
    pyspark_kraft_metadata.DefaultSource
except Exception as error:
    print(json.dumps([sorted(imported - sys.stdlib_module_names), str(error)]))
"""


def run(
    program: str,
    folder: Path,
    hidden: list[str],
    versions: dict[str, str] | None = None,
    attributes: dict[str, str] | None = None,
) -> list[object]:
    """Run a program in a Python that lacks modules, or has other versions of them."""
    (folder / "pyspark_zother.py").write_text(OTHER)
    done = python(
        *("-W", "ignore", "-c", PYTHON + program),
        json.dumps([hidden, versions or {}, attributes or {}]),
        folder=folder,
        variables={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])},
    )
    assert done.returncode == 0, done.stderr
    found: list[object] = json.loads(done.stdout)
    return found


def sentence(lacking: str) -> str:
    return (
        f"the data source kraft-metadata needs {lacking}: "
        f"{sys.executable} -m pip install 'jbodlab[analytics]'"
    )


@pytest.mark.process
@pytest.mark.parametrize(
    ("hidden", "versions", "lacking"),
    [
        ("", {"pyspark": "4.1.4"}, "pyspark 4.2 or newer (found 4.1.4)"),
        (
            "pyarrow numpy pandas duckdb crc32c cramjam msgspec kio",
            {},
            "pyarrow 18 or newer (not installed), numpy 2 or newer (not installed), "
            "crc32c 2.7 or newer (not installed), msgspec 0.20 or newer (not installed)",
        ),
        ("msgspec", {}, "msgspec 0.20 or newer (not installed)"),
        (
            "numpy",
            {"crc32c": "2.4.post1"},
            "numpy 2 or newer (not installed), crc32c 2.7 or newer (found 2.4.post1)",
        ),
        ("", {"pyarrow": "17.0.0"}, "pyarrow 18 or newer (found 17.0.0)"),
    ],
    ids=["old-pyspark", "pyspark-alone", "one-missing", "one-missing-one-old", "old-pyarrow"],
)
def test_what_the_format_lacks_is_said_when_it_is_used_and_hides_no_other_format(
    tmp_path: Path, hidden: str, versions: dict[str, str], lacking: str
) -> None:
    # An old PySpark has not what streams are made of.
    newer = {"pyspark.sql.streaming.datasource": "SupportsTriggerAvailableNow"}
    attributes = newer if "pyspark" in versions else {}

    names, schema, said = run(LOOK_UP, tmp_path, hidden.split(), versions, attributes)

    assert (names, schema) == (["kraft-metadata", "zother"], "a int")
    assert said == [sentence(lacking)] * 3


@pytest.mark.process
def test_the_format_does_not_need_what_only_the_replay_needs(tmp_path: Path) -> None:
    names, _, said = run(LOOK_UP, tmp_path, ["duckdb", "pandas"], {"pyspark": "4.3.0"})

    assert names == ["kraft-metadata", "zother"]
    assert said == ["input /nowhere does not exist"] * 2


@pytest.mark.process
def test_a_python_without_pyspark_imports_the_package_and_nothing_else(tmp_path: Path) -> None:
    imported, said = run(IMPORT, tmp_path, ["pyspark"])

    assert imported == ["pyspark_kraft_metadata"]
    assert said == sentence("pyspark 4.2 or newer (not installed)")


def test_versions_are_those_that_an_installation_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["analytics"]]
    least = dict(re.match(r"([^>]+)>=([0-9.]+)", text).groups() for text in asked)  # type: ignore[union-attr, misc]

    assert {name: least[name] for name in FOR_REPLAY} == FOR_REPLAY

"""Every command of README.md runs in the environment that `make demo` makes."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.machine.folders import make_folder, remove_folder
from tests.config.documents import MAKEFILE, PROJECT, ROOT, shown

pytestmark = pytest.mark.cluster

DEADLINE_S = 200
HIDING = """
import sys
from importlib.machinery import PathFinder
HIDDEN = {names!r}
class Hiding(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in HIDDEN else PathFinder.find_spec(name, path)
sys.meta_path[sys.meta_path.index(PathFinder)] = Hiding
"""
APPLICATION = "import sys, time; assert ':' in sys.argv[2]; time.sleep(8)"
KEPT = ("pip", "setuptools", "jbodlab")
LOG = "clusters/default/controller-100/metadata-disk/metadata/__cluster_metadata-0"


class Reader:
    """Somebody who has called `make demo`, and types what the page shows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "sitecustomize.py").write_text(HIDING.format(names=sorted(_hidden())))
        (folder / "my-app").write_text(f"#!{sys.executable}\n{APPLICATION}\n")
        (folder / "my-app").chmod(0o755)
        self.variables = {
            **os.environ,
            "JBODLAB_STATE_DIR": str(folder / "state"),
            "PYTHONPATH": str(folder),
        }
        self.servers = ""

    def types(self, line: str) -> str:
        """Run a command with what is there in the place of the page's names."""
        words = line.replace("kafka:9092", self.servers)
        words = words.replace("__cluster_metadata-0", str(self.folder / "state" / LOG))
        command = [sys.executable, "-m", "jbodlab", *shlex.split(words)]
        if words.startswith(("ui", "serve")):
            return self._watches(command)
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE_S,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        if found := re.search(r"^bootstrap.servers=(.*)$", done.stdout, re.MULTILINE):
            self.servers = self.servers or found[1]
        return done.stdout

    def _watches(self, command: list[str]) -> str:
        """Open the page, and close it with Ctrl-C."""
        with subprocess.Popen(
            command, cwd=self.folder, env=self.variables, stdout=subprocess.PIPE, text=True
        ) as page:
            assert page.stdout is not None
            line = page.stdout.readline()
            page.send_signal(signal.SIGINT)
        assert "http://127.0.0.1" in line
        return line


@pytest.fixture
def reader() -> Iterator[Reader]:
    folder = make_folder()
    found = Reader(folder)
    yield found
    for name in ("default", "closed", "api"):
        found.types(f"down --cluster {name}")
    remove_folder(folder)


@pytest.mark.timeout(600)
def test_each_command_of_the_readme_works_after_make_demo(reader: Reader) -> None:
    lines = [line for line in shown(ROOT / "README.md") if not line.startswith("demo")]
    ends = lines.index("down")
    # A story of a cluster that is up; its log is explained before it ends.
    reader.types(lines[0])
    reader.types("topics create orders --partitions 4 --replication-factor 3")
    for line in (*lines[1:ends], *lines[ends + 1 :], lines[ends]):
        reader.types(line)


def _hidden() -> set[str]:
    """The modules of this environment that the one of `make demo` does not have."""
    (extras,) = re.findall(r"^DEMO_EXTRAS := (.*)$", MAKEFILE, re.MULTILINE)
    optional = PROJECT["optional-dependencies"]
    wanted = [
        *PROJECT["dependencies"],
        *(one for name in extras.split(",") for one in optional[name]),
    ]
    there: set[str] = set(KEPT)
    while wanted:
        name = _name(wanted.pop())
        if name not in there:
            there.add(name)
            try:
                needs = importlib.metadata.requires(name) or []
            except importlib.metadata.PackageNotFoundError:
                continue
            wanted += [one for one in needs if "extra ==" not in one]
    return {
        module
        for module, owners in importlib.metadata.packages_distributions().items()
        if not there & set(map(_name, owners))
    }


def _name(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    assert found is not None
    return re.sub(r"[-_.]+", "-", found[0]).lower()

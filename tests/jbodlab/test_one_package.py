"""A wheel has everything below `jbodlab`, and its commands work from there."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from jbodlab.cli.program_names import ROOT, name_of

pytest.importorskip("hatchling", reason="what builds the wheel is not installed")

BASE_INSTALL_MB = 78
BROUGHT_BY_VENV = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils-precedence")

LOAD_ALL = """
import sys
from pathlib import Path
import jbodlab.cli.commands as commands
assert str(Path(commands.__file__).resolve()).startswith(sys.argv[1]), commands.__file__
for name in commands.COMMANDS:
    assert callable(getattr(commands, name)), name
from jbodlab.cli import program
from jbodlab.cli.command import commands, named
for words, command in commands().items():
    program.parser_of(command)
    for place in command.rows['run'][0][1].split():
        assert ':' not in place or callable(named(place)), words
from jbodlab.lab import cluster
for name in cluster.__all__:
    assert callable(getattr(cluster, name)), name
print(*sorted({name.partition(".")[0] for name in sys.modules} & set(sys.argv[2:])))
"""


def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("one_package", ROOT / "scripts/one_package.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from broker.server import X\n", "from jbodlab.broker.server import X\n"),
        ("    from lab import errors\n", "    from jbodlab.lab import errors\n"),
        ("import lab.errors as errors\n", "import jbodlab.lab.errors as errors\n"),
        ("from jbodlab.storage.log import names\n", "from jbodlab.storage.log import names\n"),
        ("from labels import broker\n", "from labels import broker\n"),
        ("broker = 'from broker import'\n", "broker = 'from broker import'\n"),
    ],
)
def test_imports_of_our_packages_are_moved_and_nothing_else(source: str, expected: str) -> None:
    assert hook().moved(source) == expected


@pytest.mark.parametrize("source", ["import lab.errors", 'import_module(f"lab.errors")'])
def test_an_import_that_would_name_another_module_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match="cannot be moved"):
        hook().moved(f"{source}\n")


def test_in_the_repository_programs_have_their_own_names() -> None:
    assert name_of("broker.server") == "broker.server"


@pytest.mark.process
def test_all_commands_of_a_wheel_are_found_below_jbodlab(tmp_path: Path) -> None:
    module = hook()
    module.write(ROOT, tmp_path)

    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(module.UNMOVED)
    plans = tmp_path / "jbodlab" / "lab" / "plan" / "plans"
    assert (plans / "../../../docs/plan.schema.json").is_file()
    assert (tmp_path / "jbodlab" / "docs" / "output.schema.json").is_file()
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            LOAD_ALL,
            str(tmp_path.resolve()),
            *module.MOVED,
        ],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


@pytest.mark.process
def test_an_install_without_extras_takes_at_most_78_mb(tmp_path: Path) -> None:
    built = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path]
    subprocess.run(built, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    base = Path(sys.base_prefix) / "bin" / "python3"
    subprocess.run([base, "-m", "venv", tmp_path / "env"], check=True, timeout=60)
    installed = subprocess.run(
        [tmp_path / "env" / "bin" / "python", "-m", "pip", "install", "--quiet", wheel],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    if installed.returncode and "Could not find a version" in installed.stderr:
        pytest.skip(f"no package registry here: {installed.stderr.splitlines()[-1]}")
    assert installed.returncode == 0, installed.stderr

    (packages,) = (tmp_path / "env" / "lib").glob("python3*/site-packages")
    sizes = {one.name: size_of(one) for one in packages.iterdir()}
    ours = {name: size for name, size in sizes.items() if not name.startswith(BROUGHT_BY_VENV)}
    largest = sorted(ours.items(), key=lambda one: -one[1])[:8]
    assert sum(ours.values()) <= BASE_INSTALL_MB * 1_000_000, largest


def size_of(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(one.stat().st_size for one in files if one.is_file())


def test_an_image_is_built_with_every_schema_of_the_wheel() -> None:
    kept = (ROOT / ".dockerignore").read_text("utf-8").splitlines()

    assert {f"!{schema}" for schema in hook().SCHEMAS} <= set(kept)

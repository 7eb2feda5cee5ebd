"""Packs `jbodlab replay` for `spark-submit`: dist/jbod-replay.zip and the file that starts it.

The archive holds our own packages only. The packages that they import have to be on every node, in
the interpreter of PYSPARK_PYTHON: pyarrow, pandas, numpy, crc32c, cramjam and msgspec, for the
driver duckdb, sqlglot and jinja2 as well, or an environment packed with `--archives`.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGES = ("analytics", "jbodlab", "pyspark_kraft_metadata")
STARTER = '''\
"""Starts `jbodlab replay` under spark-submit, from the archive given with --py-files."""

import sys

from jbodlab.cli.program import main

sys.exit(main(["replay", *sys.argv[1:]]))
'''


def package(target: Path) -> tuple[Path, Path]:
    """Write archive and starter.

    Args:
        target: Folder for both; made if it is missing.

    Returns:
        The paths of the starter and of the archive.
    """
    target.mkdir(parents=True, exist_ok=True)
    starter, archive = target / "jbod_replay.py", target / "jbod-replay.zip"
    starter.write_text(STARTER)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in PACKAGES:
            for path in sorted((REPOSITORY / name).rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    packed.write(path, path.relative_to(REPOSITORY))
    return starter, archive


if __name__ == "__main__":
    first, second = package(REPOSITORY / "dist")
    print(f"spark-submit --py-files {second} {first} --input DIR --results DIR")

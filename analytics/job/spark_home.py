"""A home of Spark whose Python workers import PySpark from where this process has it from.

Spark puts the PySpark of its home, a zip archive, before all that workers import. Python compiles
what it imports from an archive anew in each process, four of them one after the other for a small
log, and Spark starts one more to look for registered data sources, of which there are none.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from jbodlab.cli import lab_state

_LEFT_OUT = "python"


def without_archive(package: Path) -> Path:
    """Return a home with all that a package of PySpark has but its archives.

    Where nothing can be kept that is the package itself.
    """
    cache = lab_state.cache_dirs(os.environ, os.geteuid())[0] / "spark"
    home = cache / quote(str(package), safe="")
    try:
        if lab_state.make_cache(cache, os.geteuid()):
            return package
        home.mkdir(exist_ok=True)
        for entry in package.iterdir():
            if entry.name != _LEFT_OUT:
                with suppress(FileExistsError):
                    (home / entry.name).symlink_to(entry)
    except OSError:
        return package
    return home

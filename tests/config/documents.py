"""Parts of the documents."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_COMMAND = re.compile(r"^(?:\.venv/bin/)?jbodlab (.*?)(?: +#.*)?$", re.MULTILINE)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MAKEFILE = (ROOT / "Makefile").read_text()


def shown(document: Path) -> list[str]:
    """The commands that a page shows in blocks of code, without `jbodlab`."""
    blocks = "".join(document.read_text().split("```")[1::2]).replace("\\\n", " ")
    return [line for text in _COMMAND.findall(blocks) for line in text.split("; jbodlab ")]

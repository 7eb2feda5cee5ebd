"""Write `docs/plan.schema.json`, the JSON Schema of plans, from the structs that read them.

    .venv/bin/python scripts/plan_schema.py

It writes `docs/openapi.json`, too, from the declared requests of the HTTP API, and the table of a
cluster's settings in `docs/engines.md`, from `lab.cluster.spec`.

Editors complete and check a plan by it; a wheel has it below `jbodlab/docs`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "docs" / "plan.schema.json"
API = ROOT / "docs" / "openapi.json"


def text() -> str:
    """Return the schema as the file has it."""
    from lab.plan.plan_file import schema

    return json.dumps(schema(), indent=1) + "\n"


def api() -> str:
    """Return the OpenAPI document as the file has it."""
    from lab.api import openapi

    return json.dumps(openapi.document(), indent=1) + "\n"


def with_table(page: str) -> str:
    """Return a page with its table of a cluster's settings made anew."""
    from lab.cluster import spec

    head = spec.table().splitlines()[0]
    before, _, behind = page.partition(head)
    _, _, rest = behind.partition("\n\n")
    return f"{before}{spec.table()}\n{rest}"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    FILE.write_text(text(), "utf-8")
    API.write_text(api(), "utf-8")
    page = ROOT / "docs" / "engines.md"
    page.write_text(with_table(page.read_text("utf-8")), "utf-8")

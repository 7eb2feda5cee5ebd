"""Write `docs/plan.schema.json`, the JSON Schema of plans, from the structs that read them.

    .venv/bin/python scripts/plan_schema.py

Editors complete and check a plan by it; a wheel has it below `jbodlab/docs`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "docs" / "plan.schema.json"


def text() -> str:
    """Return the schema as the file has it."""
    from lab.rehearsal.plan_file import schema

    return json.dumps(schema(), indent=1) + "\n"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    FILE.write_text(text(), "utf-8")

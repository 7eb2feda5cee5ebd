"""The record of the runs of one plan on several engines: one page, one table, the verdicts."""

from __future__ import annotations

import json
from pathlib import Path

from lab.report import page


def keep(runs: page.Compared, report: Path) -> list[str]:
    """Write the page of some engines side by side, and `engines.json` beside it.

    Args:
        runs: Results by the engine.
        report: File of the page.

    Returns:
        The table as lines of text.
    """
    report.write_text(page.comparison(runs), "utf-8")
    verdicts = {name: [run["verdict"] for run in found] for name, found in runs.items()}
    kept = json.dumps(verdicts, indent=1) + "\n"
    report.with_name("engines.json").write_text(kept, "utf-8")
    return page.compared_lines(runs)

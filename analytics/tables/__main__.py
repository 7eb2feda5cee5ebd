"""Write the data dictionary and its picture anew: `python -m analytics.tables`, in a clone."""

from __future__ import annotations

from analytics.tables.dictionary import dictionary
from analytics.tables.lineage import picture
from jbodlab.cli.program_names import ROOT

(ROOT / "docs" / "data-dictionary.md").write_text(dictionary(), "utf-8")
(ROOT / "docs" / "images" / "lineage.svg").write_text(picture(), "utf-8")

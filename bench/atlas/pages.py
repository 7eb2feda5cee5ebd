"""The atlas as Markdown and as a page in one file, from kept runs alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from textwrap import wrap

from bench.atlas.bugs import Bug
from bench.atlas.kept import INCONCLUSIVE, NOT_RUN, REFUSED, Kept
from jbodlab.pages.page import Block, Section, html_page
from jbodlab.pages.values import Column, Unit
from lab.report.page import objective_cell, verdicts

HEAD = """\
# Atlas: what a broken disk does to each release

Each shipped [plan](rehearsals.md) ran on each engine. `make atlas` writes this page from the runs
in `bench/atlas/runs`; no figure is written by hand.

RUNS

The objectives are those of jbodlab. FAIL on Apache Kafka means that this release is slower, or does
something else, not always that it has a bug. INCONCLUSIVE: the run proves nothing. NOT RUN: the run
left no result. REFUSED: the release refuses what the plan asks for, which is how it fixed the bug.
The reasons are below the tables.

"Engines side by side" counts acknowledged messages that were lost or read twice, and the times in
which a producer got no acknowledgement of a partition, over all runs of an engine. The waits of
consumers are in the tables of the plans. Plans of known bugs are left out, and engines that ran
other plans are not comparable there.

A plan that is named after a number of Kafka's tracker shows that bug: it is FAIL on a release that
has the bug, and PASS or REFUSED on one that fixed it.
"""
NOTHING = "No run is kept yet.\n"

Table = tuple[Sequence[str], Sequence[Sequence[str]]]
"""Titles of the columns, and rows of texts."""
ByEngine = Mapping[str, Sequence[Kept]]


def markdown(runs: Sequence[Kept], bugs: Sequence[Bug]) -> str:
    """Return the page of the documentation."""
    head = HEAD.replace("RUNS", "\n".join(wrap(_runs_of_cells(runs), 100)))
    if not runs:
        return f"{head}\n{NOTHING}"
    parts = [head, "## Engines side by side\n", _text(_compared(runs))]
    parts += ["## Verdicts\n", _text(_verdicts(runs))]
    if bugs:
        parts += ["## Known bugs\n", _text(_bugs(runs, bugs))]
    for plan, by_engine in _plans(runs).items():
        parts += [f"## {plan}\n", f"{_title(by_engine)}\n", _text(_plan(by_engine))]
        parts += [f"* {line}" for line in _reasons(by_engine)]
        if parts[-1].startswith("* "):
            parts[-1] += "\n"
    parts += ["## Where it was measured\n", _text(_surroundings(runs))]
    return "\n".join(parts)


def _runs_of_cells(runs: Sequence[Kept]) -> str:
    """Return how many runs a cell of the tables has."""
    counts = Counter((run["plan"], run["engine"]) for run in runs)
    several = sorted(count for count in counts.values() if count > 1)
    chance = (
        "A difference of a few seconds between two runs may be chance, and so may a verdict that "
        "hangs on it."
    )
    if not several:
        return f"**Each cell is one run.** {chance}"
    times = f"{several[0]} to {several[-1]}" if several[0] < several[-1] else f"{several[0]}"
    return (
        f"**Each cell is one run**, except {len(several)} of {len(counts)} with {times} runs, "
        f"which show the median, then the least and the greatest value. {chance}"
    )


def page(runs: Sequence[Kept], bugs: Sequence[Bug]) -> str:
    """Return the same as one HTML file that needs no network."""
    sections = [
        _section(
            "engines",
            "Engines side by side",
            _compared(runs),
            _runs_of_cells(runs).replace("**", ""),
        ),
        _section("verdicts", "Verdicts", _verdicts(runs)),
    ]
    if bugs:
        sections.append(_section("bugs", "Known bugs", _bugs(runs, bugs)))
    for plan, by_engine in _plans(runs).items():
        section = _section(plan, plan, _plan(by_engine), _title(by_engine), _reasons(by_engine))
        sections.append(section)
    sections.append(_section("surroundings", "Where it was measured", _surroundings(runs)))
    return html_page(
        sections,
        title="Atlas: what a broken disk does to each release",
        generator="python -m bench.atlas",
    )


def _compared(runs: Sequence[Kept]) -> Table:
    """Return what the runs of each engine lost, and how long their clients got no answer."""
    rows = []
    runs = [run for run in runs if not run["plan"].startswith("kafka-")]
    for engine in _engines(runs):
        own = [run for run in runs if run["engine"] == engine]
        gaps = _values(own, "gap")
        rows.append(
            (
                engine,
                str(len({run["plan"] for run in own})),
                verdicts(own),
                f"{sum(_values(own, 'lost')):.0f}",
                f"{sum(_values(own, 'duplicated')):.0f}",
                f"{median(gaps):.1f} s" if gaps else "-",
                f"{max(gaps):.1f} s" if gaps else "-",
            )
        )
    gaps_of = ("Median gap of producers", "Longest gap of producers")
    return ("Engine", "Plans", "Runs", "Lost", "Duplicated", *gaps_of), rows


def _values(runs: Sequence[Kept], metric: str) -> list[float]:
    """Return the values of one metric of producers, as `gap`, in all runs, as far as known."""
    return [
        held["value"]
        for run in runs
        for held in run["objectives"]
        if held["text"].split(" ")[0].endswith(f".{metric}")
        and held["value"] is not None
        # The waits of consumers are another figure.
        and not held["text"].startswith("readers.")
    ]


def _plans(runs: Sequence[Kept]) -> dict[str, dict[str, list[Kept]]]:
    """Return the runs by plan and engine, with every engine for each plan."""
    found: dict[str, dict[str, list[Kept]]] = {}
    for run in runs:
        found.setdefault(run["plan"], {one: [] for one in _engines(runs)})
        found[run["plan"]][run["engine"]].append(run)
    return found


def _engines(runs: Sequence[Kept]) -> list[str]:
    """Return the engines: ours, then the releases in the order of the runs."""
    names = list(dict.fromkeys(run["engine"] for run in runs))
    return sorted(names, key=lambda name: (":" in name, [*map(_number, name.split("."))]))


def _number(text: str) -> int:
    digits = "".join(filter(str.isdigit, text))
    return int(digits) if digits else 0


def _title(by_engine: ByEngine) -> str:
    titles = [run["title"] for runs in by_engine.values() for run in runs if run["title"]]
    return f"{titles[0][0].upper()}{titles[0][1:]}." if titles else ""


def _verdicts(runs: Sequence[Kept]) -> Table:
    rows = [(plan, *map(verdicts, by_engine.values())) for plan, by_engine in _plans(runs).items()]
    return ("Plan", *_engines(runs)), rows


def _bugs(runs: Sequence[Kept], bugs: Sequence[Bug]) -> Table:
    """Return the bugs, each with the verdict of its plan on every engine that ran it."""
    plans = _plans(runs)
    rows = [
        (
            bug.number or "no number found",
            bug.what,
            bug.found or "-",
            bug.fixed or "-",
            bug.plan or "-",
            _seen(plans.get(bug.plan, {})),
            bug.why or "-",
        )
        for bug in bugs
    ]
    return ("Number", "What", "Found in", "Fixed in", "Plan", "Runs", "Why no run shows it"), rows


def _seen(by_engine: ByEngine) -> str:
    """Return the verdicts of a plan on one line."""
    return "; ".join(f"{name}: {verdicts(runs)}" for name, runs in by_engine.items() if runs) or "-"


def _plan(by_engine: ByEngine) -> Table:
    texts = dict.fromkeys(
        held["text"] for runs in by_engine.values() for run in runs for held in run["objectives"]
    )
    by_engine = {name: runs for name, runs in by_engine.items() if runs}
    rows = [("verdict", *map(verdicts, by_engine.values()))]
    rows += [(text, *(objective_cell(text, runs) for runs in by_engine.values())) for text in texts]
    return ("Expected", *by_engine), rows


def _reasons(by_engine: ByEngine) -> list[str]:
    """Return why runs proved nothing or did not begin, one line for each engine and reason."""
    found = [
        f"{engine}: {run['verdict']}: {run['reason']}"
        for engine, runs in by_engine.items()
        for run in runs
        if run["verdict"] in (INCONCLUSIVE, NOT_RUN, REFUSED) and run["reason"]
    ]
    return list(dict.fromkeys(found))


def _surroundings(runs: Sequence[Kept]) -> Table:
    """Return machine, days, commit and number of runs of each engine."""
    rows = []
    for engine in _engines(runs):
        own = [run for run in runs if run["engine"] == engine]
        days = sorted({run["began"][:10] for run in own if run["began"]})
        span = days[0] if len(days) == 1 else " to ".join(days[:1] + days[-1:])
        machines = ", ".join(sorted({run["machine"] for run in own if run["machine"]}))
        commits = ", ".join(sorted({run["commit"] for run in own}))
        rows.append((engine, str(len(own)), machines or "-", span or "-", commits))
    return ("Engine", "Runs", "Machine", "Day", "Commit"), rows


def _text(table: Table) -> str:
    """Return a table as Markdown."""
    titles, rows = table
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _section(
    name: str, title: str, table: Table, note: str = "", reasons: Sequence[str] = ()
) -> Section:
    titles, rows = table
    columns = [
        Column(name=f"column_{number}", title=text, unit=Unit.TEXT)
        for number, text in enumerate(titles)
    ]
    block = Block(name=name, title=title, columns=columns, rows=rows, is_open=True)
    texts = [("Reasons", "\n".join(reasons))] if reasons else []
    return Section(name=f"of-{name}", title=title, blocks=[block], note=note, texts=texts)

"""The atlas as Markdown and as a page in one file, from kept runs alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf
from statistics import median
from textwrap import wrap

from bench.atlas.bugs import Bug
from bench.atlas.kept import INCONCLUSIVE, NOT_RUN, REFUSED, Kept
from jbodlab.pages.page import Block, Section, html_page
from jbodlab.pages.values import Column, Unit
from lab.report.page import NEVER, objective_cell, verdicts

HEAD = """\
# Atlas: what a broken disk does to each release

Each shipped [plan](rehearsals.md) ran on each engine. `make atlas` writes this page from the runs
in `bench/atlas/runs`; no figure is written by hand.

RUNS

The objectives are those of jbodlab. FAIL on Apache Kafka means that this release is slower, or does
something else, not always that it has a bug. INCONCLUSIVE: the run proves nothing. NOT RUN: the run
left no result. REFUSED: the release refuses what the plan asks for, which is how it fixed the bug.
The reasons are below the tables.

"Engines side by side" sums the acknowledged messages that were lost or read twice in all runs of an
engine, with the least and the greatest of one run. A gap is the time in which a producer got no
acknowledgement of a partition. The waits of consumers are in the tables of the plans. Plans of
known bugs are left out, and engines that ran other plans are not comparable there.

A plan that is named after a number of Kafka's tracker shows that bug: it is FAIL on a release that
has the bug, and PASS or REFUSED on one that fixed it.
"""
NOTHING = "No run is kept yet.\n"
_COUNTS = ("lost", "duplicated")

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
    """Return how many runs a cell of the tables has, and what it shows of them."""
    cells = Counter((run["plan"], run["engine"]) for run in runs)
    sizes = sorted(Counter(cells.values()).items(), reverse=True)
    runs_of = [f"{count} runs" if count > 1 else "one run" for count, _ in sizes]
    shown = f"Each cell is {runs_of[0]}." if sizes else ""
    if len(sizes) > 1:
        parts = [f"{times} are {text}" for text, (_, times) in zip(runs_of, sizes, strict=True)]
        shown = f"Of {len(cells)} cells {', '.join(parts)}."
    return (
        f"**{shown}** Several runs show the median, then the least and the greatest value, and a "
        'verdict where all agree, else "mixed" with their numbers. One run shows no spread: a '
        "difference of a few seconds may be chance, and so may a verdict that hangs on it."
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
        gaps = sorted(gap for run in own for gap in _values(run, "gap"))
        rows.append(
            (
                engine,
                str(len({run["plan"] for run in own})),
                verdicts(own),
                *(_summed([sum(_values(run, name)) for run in own]) for name in _COUNTS),
                f"{_gap(median(gaps))} ({_gap(gaps[0])} to {_gap(gaps[-1])})" if gaps else "-",
            )
        )
    return ("Engine", "Plans", "Runs", "Lost", "Duplicated", "Gap of producers"), rows


def _summed(counts: Sequence[float]) -> str:
    return f"{sum(counts):.0f} ({min(counts):.0f} to {max(counts):.0f})"


def _gap(seconds: float) -> str:
    return "never" if seconds == inf else f"{seconds:.1f} s"


def _values(run: Kept, metric: str) -> list[float]:
    """Return the values of one metric of producers, as `gap`, in a run, as far as known."""
    return [
        inf if held["value"] == NEVER else held["value"]
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
    rows = [(plan, *map(_agreed, by_engine.values())) for plan, by_engine in _plans(runs).items()]
    return ("Plan", *_engines(runs)), rows


def _agreed(runs: Sequence[Kept]) -> str:
    """Return the verdict in which all runs agree; else that it is mixed, and of what."""
    found = {run["verdict"] for run in runs}
    return f"mixed ({verdicts(runs)})" if len(found) > 1 else next(iter(found), "-")


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
    return "; ".join(f"{name}: {_agreed(runs)}" for name, runs in by_engine.items() if runs) or "-"


def _plan(by_engine: ByEngine) -> Table:
    texts = dict.fromkeys(
        held["text"] for runs in by_engine.values() for run in runs for held in run["objectives"]
    )
    by_engine = {name: runs for name, runs in by_engine.items() if runs}
    rows = [("verdict", *map(_agreed, by_engine.values()))]
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
    """Return machine, load, days, commits and number of runs of each engine."""
    rows = []
    for engine in _engines(runs):
        own = [run for run in runs if run["engine"] == engine]
        days = sorted({run["began"][:10] for run in own if run["began"]})
        span = days[0] if len(days) == 1 else " to ".join(days[:1] + days[-1:])
        machines = ", ".join(sorted({run["machine"] for run in own if run["machine"]}))
        commits = ", ".join(sorted({run["commit"] for run in own}))
        loads = [run["load"] for run in own if run["load"] is not None]
        load = f"{median(loads):.1f} ({min(loads)} to {max(loads)})" if loads else "-"
        rows.append((engine, str(len(own)), machines or "-", load, span or "-", commits))
    return ("Engine", "Runs", "Machine", "Load before a run", "Day", "Commit"), rows


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

"""One HTML page of one run, of several, or of two that are compared; it needs no network."""

from __future__ import annotations

import base64
import hashlib
import statistics
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from jbodlab.expressions import Unit
from lab.rehearsal.values import show
from lab.report import figures

Run = Mapping[str, Any]
EVENTS_SHOWN = 600
NEVER = -1
UNKNOWN = "-"


def page(runs: Sequence[Run], title: str = "") -> str:
    """Return the page of one run, or of the runs of one plan with the spread of their figures."""
    first = runs[0]
    heading = title or first["name"]
    body = [f"<h1>{escape(heading)}</h1>"]
    if first["hypothesis"]:
        body.append(f'<p class="lead">{escape(first["hypothesis"])}</p>')
    if len(runs) > 1:
        body.append(f"<h2>{len(runs)} runs</h2>{_spread(runs)}")
    for number, run in enumerate(runs, start=1):
        body.append(_section(run, f"Run {number}" if len(runs) > 1 else ""))
    return _document(heading, body)


def comparison(left: Run, right: Run, names: tuple[str, str]) -> str:
    """Return the page of two runs side by side."""
    title = f"{left['name']}: {names[0]} and {names[1]}"
    body = [f"<h1>{escape(title)}</h1>"]
    body += [
        f'<div class="verdict {run["verdict"]}">{escape(name)}: {escape(run["sentence"])}</div>'
        for name, run in zip(names, (left, right), strict=True)
    ]
    body.append(f"<h2>Figures</h2>{_compared(left, right, names)}")
    body += [_section(run, name) for name, run in zip(names, (left, right), strict=True)]
    return _document(title, body)


def compared_lines(left: Run, right: Run, names: tuple[str, str]) -> list[str]:
    """Return the figures of two runs as lines of text."""
    rows = [("", *names), ("verdict", left["verdict"], right["verdict"])]
    rows += list(_pairs(left, right))
    width = max(len(row[0]) for row in rows)
    return [f"{name:<{width}}  {one:>16}  {other:>16}" for name, one, other in rows]


def spread_lines(runs: Sequence[Run]) -> list[str]:
    """Return the spread of all figures as lines of text."""
    rows = [("", "min", "median", "max"), *_spread_rows(runs)]
    width = max(len(row[0]) for row in rows)
    return [f"{row[0]:<{width}}" + "".join(f"  {cell:>12}" for cell in row[1:]) for row in rows]


def distribution(runs: Sequence[Run]) -> dict[str, dict[str, Any]]:
    """Return least, middle and greatest value of each metric, and how often it had none."""
    found = {}
    for name, unit in _metrics(runs):
        values = [_value(run, name) for run in runs]
        known = sorted(value for value in values if value is not None)
        found[name] = {
            "unit": unit,
            "min": known[0] if known else None,
            "median": statistics.median_low(known) if known else None,
            "max": known[-1] if known else None,
            "never": sum(value == float("inf") for value in known),
            "unknown": len(values) - len(known),
        }
    for one in found.values():
        for key in ("min", "median", "max"):
            one[key] = NEVER if one[key] == float("inf") else one[key]
    return found


def _section(run: Run, heading: str) -> str:
    parts = ["<section>"]
    if heading:
        parts.append(f"<h2>{escape(heading)}</h2>")
    parts += [
        _verdict(run),
        _objectives(run),
        "<h2>What happened</h2>",
        f'<div class="wide">{figures.picture(run)}</div>',
        _faults(run),
        _messages(run),
        _events(run),
        _surroundings(run),
        "</section>",
    ]
    return "".join(parts)


def _verdict(run: Run) -> str:
    reasons = [*run["missed"], *run["doubts"], *run["warnings"]]
    items = "".join(f"<li>{escape(reason)}</li>" for reason in reasons)
    return (
        f'<div class="verdict {run["verdict"]}">{escape(run["sentence"])}'
        + (f'<ul class="reasons">{items}</ul>' if items else "")
        + "</div>"
    )


def _objectives(run: Run) -> str:
    if not run["objectives"]:
        return ""
    rows = []
    for held in run["objectives"]:
        word, kind = _word(held)
        rows.append(
            (escape(held["text"]), escape(held["measured"]), f'<span class="{kind}">{word}</span>')
        )
    return "<h2>Objectives</h2>" + _table(("expected", "measured", ""), rows, right=(1,))


def _word(held: Mapping[str, Any]) -> tuple[str, str]:
    if held["holds"] is None:
        return "? not known", "unknown"
    if held["holds"]:
        return "✓ met", "met"
    return ("! warning", "warned") if held["severity"] == "warn" else ("✗ missed", "missed")


def _faults(run: Run) -> str:
    if not run["faults"]:
        return ""
    labels = [label for _, label in figures.STAIRS]
    rows = []
    for fault in run["faults"]:
        steps = [_seconds(value) for _, value in figures.stairs(run, fault)]
        back = run["metrics"].get(f"{fault['name']}.isr_back", {}).get("value")
        where = f"{fault['kind']} on {', '.join(fault['places'])}"
        if fault["mechanism"]:
            where += f", by {fault['mechanism']}"
        if fault["broken_calls"] is not None:
            where += f", {fault['broken_calls']} calls broken"
        if fault["problem"]:
            where += f": {fault['problem']}"
        rows.append((escape(fault["name"]), escape(where), *steps, _seconds(back)))
    return "<h2>Each fault</h2>" + _table(
        ("fault", "what", *labels, "ISR complete after the fault"),
        rows,
        right=tuple(range(2, 3 + len(labels))),
    )


def _messages(run: Run) -> str:
    rows = []
    for client in run["clients"]:
        fields = ("sent", "acked", "lost", "unread", "duplicated", "reordered", "unknown", "errors")
        if client["kind"] != "writers":
            continue
        cells = [_shown(run, f"{client['name']}.{field}") for field in fields]
        errors = ", ".join(f"{name} {count}" for name, count in client["errors"].items())
        rows.append((escape(client["name"]), *cells, escape(errors)))
    if not rows:
        return ""
    heads = (
        "producer",
        "sent",
        "acknowledged",
        "lost",
        "unread",
        "duplicated",
        "out of order",
        "unknown",
        "errors",
        "which",
    )
    return "<h2>Messages</h2>" + _table(heads, rows, right=tuple(range(1, 9)))


def _events(run: Run) -> str:
    if not run["events"]:
        return ""
    events = run["events"][:EVENTS_SHOWN]
    rows = "".join(
        f'<tr data-t="{event["t"]}"><td class="n">{_moment(event)}</td>'
        f"<td>{escape(event['source'])}</td><td>{escape(event['text'])}</td></tr>"
        for event in events
    )
    more = len(run["events"]) - len(events)
    note = f"<p>and {more} more in events.jsonl</p>" if more else ""
    return (
        f"<details><summary>{len(run['events'])} events</summary><div class='wide'><table>"
        f"<thead><tr><th>time</th><th>from</th><th>what</th></tr></thead><tbody>{rows}</tbody>"
        f"</table></div>{note}</details>"
    )


def _moment(event: Mapping[str, Any]) -> str:
    # What may have been earlier by the time between two looks is no moment but a span.
    sign = "≤ " if event["err"] >= 0.05 else ""
    return f"{sign}{event['t']:.3f} s"


def _surroundings(run: Run) -> str:
    rows = [(escape(str(key)), escape(str(value))) for key, value in run["surroundings"].items()]
    rows += [
        (f"not measured: {escape(name)}", escape(why)) for name, why in run["not_measured"].items()
    ]
    return (
        "<details><summary>Surroundings and plan</summary>"
        + _table(("what", ""), rows)
        + f"<pre>{escape(run['plan'])}</pre></details>"
    )


# Figures of several runs


def _metrics(runs: Iterable[Run]) -> list[tuple[str, str]]:
    return list({name: one["unit"] for run in runs for name, one in run["metrics"].items()}.items())


def _value(run: Run, name: str) -> float | None:
    found = run["metrics"].get(name, {}).get("value")
    return None if found is None else float("inf") if found == NEVER else float(found)


def _shown(run: Run, name: str) -> str:
    value, unit = _value(run, name), run["metrics"].get(name, {}).get("unit", "count")
    return UNKNOWN if value is None else show(value, Unit[unit.upper()])


def _seconds(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return "never" if value == NEVER else show(value, Unit.DURATION)


def _pairs(left: Run, right: Run) -> Iterable[tuple[str, str, str]]:
    for name, _ in _metrics((left, right)):
        one, other = _shown(left, name), _shown(right, name)
        if (one, other) != (UNKNOWN, UNKNOWN):
            yield name, one, other


def _compared(left: Run, right: Run, names: tuple[str, str]) -> str:
    rows = [tuple(map(escape, row)) for row in _pairs(left, right)]
    return _table(("metric", *map(escape, names)), rows, right=(1, 2))


def _spread_rows(runs: Sequence[Run]) -> Iterable[tuple[str, str, str, str]]:
    for name, one in distribution(runs).items():
        if one["median"] is not None:
            unit = Unit[one["unit"].upper()]
            cells = [
                "never" if one[key] == NEVER else show(one[key], unit)
                for key in ("min", "median", "max")
            ]
            yield name, cells[0], cells[1], cells[2]


def _spread(runs: Sequence[Run]) -> str:
    verdicts = ", ".join(
        f"{sum(run['verdict'] == word for run in runs)} {word}"
        for word in ("PASS", "FAIL", "INCONCLUSIVE")
    )
    rows = [tuple(map(escape, row)) for row in _spread_rows(runs)]
    return f"<p>{verdicts}</p>" + _table(("metric", "min", "median", "max"), rows, right=(1, 2, 3))


# Markup


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> str:
    def cell(number: int, text: str, tag: str = "td") -> str:
        return f'<{tag} class="n">{text}</{tag}>' if number in right else f"<{tag}>{text}</{tag}>"

    head = "".join(cell(number, escape(text), "th") for number, text in enumerate(heads))
    lines = "".join(
        f"<tr>{''.join(cell(number, text) for number, text in enumerate(row))}</tr>" for row in rows
    )
    table = f"<thead><tr>{head}</tr></thead><tbody>{lines}</tbody>"
    return f'<div class="wide"><table>{table}</table></div>'


def _document(title: str, body: Sequence[str]) -> str:
    folder = Path(__file__).parent
    style = (folder / "page.css").read_text("utf-8")
    script = (folder / "cursor.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body>"
        + "\n".join(body)
        + f"<script>{script}</script></body></html>\n"
    )

"""One HTML page of one run, of several, or of some side by side; it needs no network."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any

from fault_injection.clients import Clients
from jbodlab.cli.output import counted
from jbodlab.pages.page import Block, Section, Verdict, html_page
from jbodlab.pages.plots import Bars, Intervals
from jbodlab.pages.values import Column, Unit, Value
from jbodlab.vocabulary.durations import duration_text
from jbodlab.vocabulary.expressions import MetricUnit
from lab.plan.values import show

Run = Mapping[str, Any]
Compared = Mapping[str, Sequence[Run]]
"""Runs of the same plan by what is compared, an engine or a file."""

EVENTS_SHOWN = 600
PARTITIONS_SHOWN = 24
STATES_SHOWN = 2000
PERIODS_SHOWN = 300
LOOKS_LATE_S = 0.05
NEVER = -1
UNKNOWN = "-"

_STEPS = {
    "detected": "Detected",
    "reported": "Reported",
    "elected": "Elected",
    "leader_seen": "Leader seen",
    "first_ack": "First ack",
    "isr_back": "ISR complete after the fault",
}
_COUNTS = {
    "sent": "Sent",
    "acked": "Acknowledged",
    "lost": "Lost",
    "unread": "Unread",
    "duplicated": "Duplicated",
    "reordered": "Out of order",
    "unknown": "Unknown outcome",
    "errors": "Errors",
}
_OF_STREAMS = {
    "counted": "Counted",
    "missing": "Not counted",
    "excess": "Counted too often",
    "exit": "Exit code",
}
_OF_TRANSACTIONS = {
    "committed": "Committed",
    "aborted": "Aborted",
    "unknown": "Unknown outcome",
    "torn": "Torn",
    "stuck": "Stuck partitions",
    "fatal": "Fatal errors",
    "longest_commit": "Longest commit",
}
_OUTCOMES = {
    "writers": ("acknowledged", "failed"),
    "readers": ("received", "failed"),
    "command": ("succeeded", "failed"),
}


def page(runs: Sequence[Run], title: str = "") -> str:
    """Return the page of one run, or of the runs of one plan with the spread of their figures."""
    if len(runs) == 1:
        return _document(title, runs, _sections(runs[0], "", ""))
    spread = Section(
        name="runs", title=f"{len(runs)} runs", blocks=[_outcomes(runs), _spread(runs)]
    )
    numbered = {f"Run {number}": run for number, run in enumerate(runs, start=1)}
    return _document(title, runs, [spread, *_one_by_one(numbered.items())])


def comparison(found: Compared) -> str:
    """Return the page of runs side by side: a column for each name, its first run in full."""
    verdicts = [
        Section(
            name=f"verdict-{number}",
            verdict=Verdict(worst(runs), f"{name}: {_sentence(runs)}"),
        )
        for number, (name, runs) in enumerate(found.items(), start=1)
    ]
    titles = list(found)
    blocks = [
        _block(
            "objectives-compared",
            "Objectives",
            [*_texts("Expected"), *_texts(*titles)],
            list(_objective_rows(found)),
            is_open=True,
        ),
        _block(
            "compared",
            "Figures",
            [*_texts("Metric"), *_numbers(*titles)],
            list(_figure_rows(found)),
            is_open=True,
        ),
    ]
    compared = Section(name="compared", title="Side by side", blocks=blocks)
    first = {name: runs[0] for name, runs in found.items()}
    title = f"{next(iter(first.values()))['name']}: {', '.join(titles)}"
    return _document(
        title, list(first.values()), [*verdicts, compared, *_one_by_one(first.items())]
    )


def compared_lines(found: Compared) -> list[str]:
    """Return the objectives and figures of runs side by side as lines of text."""
    rows: list[tuple[str, ...]] = [("", *found)]
    rows.append(("verdict", *(verdicts(runs) for runs in found.values())))
    rows += [*_objective_rows(found), *_figure_rows(found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            [f"{row[0]:<{widths[0]}}"]
            + [f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True)]
        ).rstrip()
        for row in rows
    ]


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


def _document(title: str, runs: Sequence[Run], sections: Sequence[Section]) -> str:
    length = max(run["length"] or 0 for run in runs)
    return html_page(
        sections,
        title=title or runs[0]["name"],
        lead=runs[0]["hypothesis"] if not title else "",
        first="0",
        last=str(_ms(length)),
        generator="jbodlab rehearse",
        is_elapsed=True,
    )


def _one_by_one(named: Iterable[tuple[str, Run]]) -> list[Section]:
    return [
        section
        for number, (name, run) in enumerate(named, start=1)
        for section in _sections(run, f"run-{number}-", name)
    ]


def _sections(run: Run, prefix: str, name: str) -> list[Section]:
    """Return the sections of a run; their names begin with a prefix, titles with its name."""
    head = f"{name}: " if name else ""
    surroundings = _surroundings(run, prefix)
    return [
        Section(
            name=f"{prefix}objectives",
            title=f"{head}Objectives" if run["objectives"] else name,
            verdict=_verdict(run),
            blocks=[_objectives(run, prefix)],
        ),
        Section(
            name=f"{prefix}timeline",
            title=f"{head}What happened",
            blocks=[_timeline(run, prefix), *_clients(run, prefix)],
        ),
        Section(
            name=f"{prefix}faults",
            title=f"{head}Each fault",
            blocks=[_faults(run, prefix), _noticed(run, prefix)],
        ),
        Section(
            name=f"{prefix}messages",
            title=f"{head}Messages",
            blocks=[_messages(run, prefix), *_streams(run, prefix), *_transactions(run, prefix)],
        ),
        Section(name=f"{prefix}events", title=f"{head}Events", blocks=[_events(run, prefix)]),
        Section(
            name=f"{prefix}surroundings",
            title=f"{head}Surroundings and plan",
            blocks=[surroundings],
            texts=[("Plan", run["plan"])],
        ),
    ]


def _verdict(run: Run) -> Verdict:
    return Verdict(run["verdict"], run["sentence"], [found["text"] for found in run["findings"]])


def _objectives(run: Run, prefix: str) -> Block:
    return _block(
        f"{prefix}objectives",
        "Objectives",
        [*_texts("Expected"), *_numbers("Measured"), *_texts("Result")],
        [(held["text"], held["measured"], _word(held)) for held in run["objectives"]],
        is_open=True,
    )


def _word(held: Mapping[str, Any]) -> str:
    if held["holds"] is None:
        return "? not known"
    if held["holds"]:
        return "✓ met"
    return "! warning" if held["severity"] == "warn" else "✗ missed"


def _timeline(run: Run, prefix: str) -> Block:
    """Return what was broken, and in which state directories and partitions were."""
    shown = dict(list(run["partitions"].items())[:PARTITIONS_SHOWN])
    more = len(run["partitions"]) - len(shown)
    rows = [_fault_row(fault) for fault in run["faults"] if fault["injected"] is not None]
    for place, states in run["directories"].items():
        rows += _directory_rows(place, states)
    for partition, states in shown.items():
        rows += _partition_rows(partition, states)
    note = f"{more} more partitions are in result.json." if more else ""
    return _states(run, f"{prefix}timeline", "Faults, directories and partitions", rows, note)


def _states(
    run: Run, name: str, title: str, rows: Sequence[tuple[Value, ...]], note: str = ""
) -> Block:
    """Return from when to when something was in which state."""
    return _block(
        name,
        title,
        [*_texts("What", "State"), *_columns(Unit.ELAPSED, "From", "To"), *_texts("Details")],
        rows[:STATES_SHOWN],
        plots=(Intervals(lane=("what",), start="from", end="to", colour="state", in_order=True),),
        total=len(rows),
        rest="in result.json",
        note=note,
        end=str(_ms(run["length"] or 0)),
    )


def _fault_row(fault: Mapping[str, Any]) -> tuple[Value, ...]:
    what = f"{fault['kind']} on {', '.join(fault['places'])}"
    return fault["name"], "fault", _ms(fault["injected"]), _ms(fault["healed"]), what


def _directory_rows(place: str, states: Sequence[Sequence[Any]]) -> Iterable[tuple[Value, ...]]:
    for (begin, state), end in _until([[0.0, "online"], *states]):
        if end is None or end > begin:
            yield place, state, _ms(begin), _ms(end), ""


def _until(states: Sequence[Sequence[Any]]) -> Iterable[tuple[Sequence[Any], float | None]]:
    """Return states, which begin with their time, each with when it ends; None: it does not."""
    return zip(states, [*(state[0] for state in states[1:]), None], strict=False)


def _partition_rows(name: str, states: Sequence[Sequence[Any]]) -> Iterable[tuple[Value, ...]]:
    for (begin, leader, isr, replicas, elr, last_known), end in _until(states):
        state = "no leader" if leader < 0 else "in sync" if isr >= replicas else "not all in sync"
        led = f"broker {leader} leads" if leader >= 0 else "no leader"
        if end is None or end > begin:
            details = f"{led}, {isr} of {replicas} in sync"
            for title, brokers in (("eligible", elr), ("last known eligible", last_known)):
                details += f", {title} {brokers}" if brokers else ""
            yield name, state, _ms(begin), _ms(end), details


def _clients(run: Run, prefix: str) -> Iterable[Block]:
    """Return the messages of each client over time, by outcome."""
    for number, client in enumerate(run["clients"], start=1):
        together = -(-len(client["good"]) // PERIODS_SHOWN) or 1
        period = _ms(client["per"] * together) or 0
        rows = [
            (start * period, outcome, count)
            for outcome, counts in zip(
                _OUTCOMES[client["kind"]], (client["good"], client["bad"]), strict=True
            )
            for start, count in enumerate(
                sum(counts[at : at + together]) for at in range(0, len(counts), together)
            )
            if count
        ]
        yield _block(
            f"{prefix}client-{number}",
            f"{client['name']}: messages in every {duration_text(period / 1000)}",
            [
                Column(name="bucket", title="From", unit=Unit.ELAPSED),
                *_texts("Outcome"),
                *_numbers("Messages"),
            ],
            rows,
            plots=(Bars(series="outcome", value="messages"),),
            bucket_ms=int(period),
        )


def _faults(run: Run, prefix: str) -> Block:
    rows = []
    for fault in run["faults"]:
        known = fault["first_call_broken"] is not None and fault["injected"] is not None
        first = fault["first_call_broken"] - fault["injected"] if known else None
        steps = [_metric(run, f"{fault['name']}.{name}") for name in _STEPS]
        rows.append((fault["name"], _described(fault), *map(_step, (first, *steps))))
    return _block(
        f"{prefix}faults",
        "Time from each fault to each step",
        [
            *_texts("Fault", "Description"),
            *_columns(Unit.DURATION, "First call broken", *_STEPS.values()),
        ],
        rows,
        is_open=True,
    )


def _noticed(run: Run, prefix: str) -> Block:
    """Return who noticed each loss, and how long after the fault took effect."""
    sources = list(dict.fromkeys(one["by"] for fault in run["faults"] for one in fault["noticed"]))
    rows: list[tuple[Value, ...]] = []
    for fault in run["faults"]:
        for place in fault["places"]:
            after = {one["by"]: one for one in fault["noticed"] if one["place"] == place}
            rows.append((fault["name"], place, *(_after(after.get(name)) for name in sources)))
    return _block(
        f"{prefix}noticed",
        "Who noticed each loss, and how long after the fault took effect",
        [*_texts("Fault", "Place"), *_texts(*sources)],
        rows,
    )


def _after(noticed: Mapping[str, Any] | None) -> str:
    if noticed is None or noticed["after"] is None:
        return "not noticed"
    about = "≤ " if noticed["err"] >= LOOKS_LATE_S else ""
    return f"{about}{duration_text(noticed['after'])}"


def _described(fault: Mapping[str, Any]) -> str:
    text = f"{fault['kind']} on {', '.join(fault['places'])}"
    if fault["mechanism"]:
        text += f", by {fault['mechanism']}"
    if fault["calls_broken"] is not None:
        text += f", {counted(fault['calls_broken'], 'call')} broken"
    if fault.get("clients") is not None:
        text += f"; clients: {Clients(**fault['clients'])}"
    return f"{text}: {fault['problem']}" if fault["problem"] else text


def _messages(run: Run, prefix: str) -> Block:
    rows = [
        (
            client["name"],
            *(_shown(run, f"{client['name']}.{name}") for name in _COUNTS),
            ", ".join(f"{name} {count}" for name, count in client["errors"].items()),
        )
        for client in run["clients"]
        if client["kind"] == "writers"
    ]
    return _block(
        f"{prefix}messages",
        "Messages of each producer",
        [*_texts("Producer"), *_numbers(*_COUNTS.values()), *_texts("Kinds of errors")],
        rows,
        is_open=True,
    )


def _streams(run: Run, prefix: str) -> Iterable[Block]:
    """Return what applications of Kafka Streams have counted, where there are any."""
    end = ".excess"
    names = [name.removesuffix(end) for name in run["metrics"] if name.endswith(end)]
    if names:
        yield _block(
            f"{prefix}words",
            "Words that applications counted",
            [*_texts("Application"), *_numbers(*_OF_STREAMS.values())],
            [(name, *(_shown(run, f"{name}.{field}") for field in _OF_STREAMS)) for name in names],
            is_open=True,
        )


def _transactions(run: Run, prefix: str) -> Iterable[Block]:
    """Return the figures of transactions, and how long which were open, where there are any."""
    names = [f"transactions.{name}" for name in _OF_TRANSACTIONS]
    if not any(name in run["metrics"] for name in names):
        return
    yield _block(
        f"{prefix}transactions",
        "Transactions of all producers",
        _numbers(*_OF_TRANSACTIONS.values()),
        [tuple(_shown(run, name) for name in names)],
        is_open=True,
    )
    rows: list[tuple[Value, ...]] = []
    for name, states in run["transactions"].items():
        for (begin, state), end in _until(states):
            if state != "ended":
                rows.append((name, state, _ms(begin), _ms(end), ""))
    for name, states in run["last_stable_offsets"].items():
        for (begin, stands, offset, behind), end in _until(states):
            if stands:
                text = f"at {offset}, {behind} before the high watermark"
                rows.append((name, "last stable offset stands", _ms(begin), _ms(end), text))
    title = "Transactions that are open for more than 1 s, and last stable offsets that stand still"
    yield _states(run, f"{prefix}open-transactions", title, rows)


def _events(run: Run, prefix: str) -> Block:
    # An event that was polled may have happened earlier, by the time between two polls.
    rows = [
        (
            _ms(event["t"]),
            _ms(event["err"]) if event["err"] >= LOOKS_LATE_S else None,
            event["source"],
            event["text"],
        )
        for event in run["events"][:EVENTS_SHOWN]
    ]
    return _block(
        f"{prefix}events",
        "Events",
        [
            *_columns(Unit.ELAPSED, "Time"),
            *_columns(Unit.DURATION, "Earlier by up to"),
            *_texts("Source", "Event"),
        ],
        rows,
        plots=(
            Intervals(
                title="Events by source",
                lane=("source",),
                start="time",
                end="time",
                colour="source",
            ),
        ),
        total=len(run["events"]),
        rest="in events.jsonl",
    )


def _surroundings(run: Run, prefix: str) -> Block:
    rows = [(str(key), str(value)) for key, value in run["surroundings"].items()]
    rows += [(f"not measured: {name}", why) for name, why in run["not_measured"].items()]
    return _block(f"{prefix}surroundings", "Surroundings", _texts("Name", "Value"), rows)


# Figures of several runs


def _metrics(runs: Iterable[Run]) -> list[tuple[str, str]]:
    return list({name: one["unit"] for run in runs for name, one in run["metrics"].items()}.items())


def _metric(run: Run, name: str) -> float | None:
    found: float | None = run["metrics"].get(name, {}).get("value")
    return found


def _value(run: Run, name: str) -> float | None:
    found = _metric(run, name)
    return None if found is None else float("inf") if found == NEVER else float(found)


def _shown(run: Run, name: str) -> str:
    value, unit = _value(run, name), run["metrics"].get(name, {}).get("unit", "count")
    return UNKNOWN if value is None else show(value, MetricUnit[unit.upper()])


def worst(runs: Sequence[Run]) -> str:
    """Return the worst verdict of some runs."""
    verdicts = {run["verdict"] for run in runs}
    return next(word for word in ("FAIL", "INCONCLUSIVE", "PASS") if word in verdicts)


def _sentence(runs: Sequence[Run]) -> str:
    return verdicts(runs) if len(runs) > 1 else runs[0]["sentence"]


def verdicts(runs: Sequence[Run]) -> str:
    """Return the verdict of a run, or how often several runs had which; `-` for no run."""
    times = Counter(run["verdict"] for run in runs)
    if len(runs) == 1:
        return str(runs[0]["verdict"])
    return ", ".join(f"{count} {word}" for word, count in times.most_common()) or "-"


def _objective_rows(found: Compared) -> Iterable[tuple[str, ...]]:
    """Yield each objective with what was measured for each name."""
    texts = dict.fromkeys(
        held["text"] for runs in found.values() for run in runs for held in run["objectives"]
    )
    for text in texts:
        yield text, *(objective_cell(text, runs) for runs in found.values())


def objective_cell(text: str, runs: Sequence[Run]) -> str:
    """Return whether an objective is met, how often, and the median and spread of its value."""
    held = [one for run in runs for one in run["objectives"] if one["text"] == text]
    if not held:
        return UNKNOWN
    if len(held) == 1:
        return f"{_word(held[0])} ({held[0]['measured']})"
    met = sum(one["holds"] is True for one in held)
    known = [one for one in held if one["value"] is not None]
    ordered = sorted(known, key=lambda one: inf if one["value"] == NEVER else float(one["value"]))
    if not ordered:
        return f"met {met} of {len(held)}"
    least, middle, most = ordered[0], ordered[(len(ordered) - 1) // 2], ordered[-1]
    return (
        f"met {met} of {len(held)} ({middle['measured']}; {least['measured']} to "
        f"{most['measured']})"
    )


def _figure_rows(found: Compared) -> Iterable[tuple[str, ...]]:
    """Yield each metric with its value for each name, or its median and spread."""
    for name, _ in _metrics(run for runs in found.values() for run in runs):
        cells = [_figure_cell(name, runs) for runs in found.values()]
        if any(cell != UNKNOWN for cell in cells):
            yield name, *cells


def _figure_cell(name: str, runs: Sequence[Run]) -> str:
    if len(runs) == 1:
        return _shown(runs[0], name)
    for found, least, middle, most in _spread_rows(runs):
        if found == name:
            return middle if least == most else f"{middle} ({least} to {most})"
    return UNKNOWN


def _spread_rows(runs: Sequence[Run]) -> Iterable[tuple[str, str, str, str]]:
    """Yield each metric that is known with its least, middle and greatest value."""
    for name, one in distribution(runs).items():
        if one["median"] is not None:
            unit = MetricUnit[one["unit"].upper()]
            least, middle, most = (
                "never" if one[key] == NEVER else show(one[key], unit)
                for key in ("min", "median", "max")
            )
            yield name, least, middle, most


def _spread(runs: Sequence[Run]) -> Block:
    return _block(
        "spread",
        "Spread of the figures",
        [*_texts("Metric"), *_numbers("Min", "Median", "Max")],
        list(_spread_rows(runs)),
        is_open=True,
    )


def _outcomes(runs: Sequence[Run]) -> Block:
    rows = [
        (word, sum(run["verdict"] == word for run in runs))
        for word in ("PASS", "FAIL", "INCONCLUSIVE")
    ]
    return _block(
        "verdicts",
        "Verdicts",
        [*_texts("Verdict"), *_numbers("Runs")],
        [row for row in rows if row[1]],
        is_open=True,
    )


# Tables


def _block(
    name: str, title: str, columns: Sequence[Column], rows: Sequence[Sequence[Value]], **more: Any
) -> Block:
    return Block(name=name, title=title, columns=columns, rows=rows, **more)


def _columns(unit: Unit, *titles: str) -> list[Column]:
    names = [title.lower().replace(" ", "_") for title in titles]
    return [
        Column(name=name, title=title, unit=unit) for name, title in zip(names, titles, strict=True)
    ]


def _texts(*titles: str) -> list[Column]:
    return _columns(Unit.TEXT, *titles)


def _numbers(*titles: str) -> list[Column]:
    """Return columns of counts, or of texts of figures in different units."""
    return _columns(Unit.NUMBER, *titles)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)


def _step(seconds: float | None) -> Value:
    return "never" if seconds == NEVER else _ms(seconds)

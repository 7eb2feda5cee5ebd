"""From the text of a plan to its values, or to all of its mistakes at once.

A plan is read from the top down; each part has a module of its own, `read_...`.
"""

from __future__ import annotations

from collections.abc import Sequence

from jbodlab.durations import duration_s
from jbodlab.errors import JbodlabError
from lab.rehearsal import document
from lab.rehearsal.document import Fields, Item, Mistakes, one_of, text, truth, whole
from lab.rehearsal.known import Known
from lab.rehearsal.plan import After, At, End, Entry, Objective, Plan, Steady
from lab.rehearsal.read_cluster import read_cluster, read_topics
from lab.rehearsal.read_load import positive, read_load
from lab.rehearsal.read_timeline import Timeline

VERSION = 1


class PlanError(JbodlabError):
    """A plan with mistakes: the text has one line for each."""


def read(source: str, file: str) -> Plan:
    """Return the plan that a text says.

    Args:
        source: The text of a YAML file.
        file: Its name, for the mistakes.

    Raises:
        PlanError: it has mistakes; all of them are told, each with line and keys.
    """
    mistakes = Mistakes(file)
    item = document.read(source, mistakes)
    plan = None if item is None else _plan(Fields(item), source)
    if mistakes.lines:
        raise PlanError("\n".join(mistakes.lines))
    assert plan is not None
    return plan


def _plan(top: Fields, source: str) -> Plan:
    top.read("rehearsal", whole(VERSION, VERSION), VERSION, needed=True)
    name = top.read("name", text, "", needed=True)
    hypothesis = top.read("hypothesis", text, "")
    about = top.read("source", text, "")
    seed = top.read("seed", whole(0, 2**63 - 1), 0)
    known = Known(cluster=read_cluster(top))
    topics = read_topics(top, known)
    load = tuple(read_load(item, known) for item in _list(top, "load", needed=True))
    timeline = Timeline(_list(top, "timeline"), known)
    steady = _steady(top, known)
    entries = timeline.entries()
    end = _end(top, timeline, entries)
    objectives = tuple(filter(None, (_objective(item, known) for item in _list(top, "objectives"))))
    top.done()
    return Plan(
        name=name,
        hypothesis=hypothesis,
        source=about,
        seed=seed,
        cluster=known.cluster,
        topics=topics,
        load=load,
        steady=steady,
        timeline=entries,
        end=end,
        objectives=objectives,
        text=source,
    )


def _list(top: Fields, key: str, *, needed: bool = False) -> list[Item]:
    found = top.get(key, needed=needed)
    entries = [] if found is None else found.items()
    if needed and found is not None and isinstance(found.value, list) and not entries:
        found.wrong("expected at least one entry")
    return entries


def _steady(top: Fields, known: Known) -> Steady:
    item = top.get("steady")
    if item is None:
        return Steady()
    fields = Fields(item)
    within = fields.read("within", positive, 20.0)
    hold = fields.read("hold", duration_s, 2.0)
    if hold > within:
        item.wrong(f"expected hold <= within, got {hold:g} s and {within:g} s")
    that = fields.get("that")
    found = [known.expression(each, live=True) for each in (that.items() if that else [])]
    fields.done()
    return Steady(within_s=within, hold_s=hold, that=tuple(filter(None, found)))


def _end(top: Fields, timeline: Timeline, entries: Sequence[Entry]) -> End:
    item = top.get("end")
    if item is None:
        return End() if entries else End(instant=At(seconds=10.0))
    fields = Fields(item)
    if ("at" in fields) == ("after" in fields):
        item.wrong("expected either 'at' or 'after'")
    elif "plus" in fields and "after" not in fields:
        item.wrong("'plus' goes with 'after' only")
    plus = fields.read("plus", duration_s, 0.0)
    after = fields.read("after", timeline.moment, None)
    at = fields.read("at", duration_s, 0.0)
    within = fields.read("within", positive, 600.0)
    fields.done()
    if after is not None:
        instant = After(name=after.name, moment=after.moment, plus_s=plus)
        return End(instant=instant, within_s=within)
    for entry in entries:
        if "at" in fields and isinstance(entry.instant, At) and entry.instant.seconds >= at:
            item.wrong(f"the run ends at {at:g} s, before {entry.name!r} is carried out")
            break
    return End(instant=At(seconds=at), within_s=within)


def _objective(item: Item, known: Known) -> Objective | None:
    if not isinstance(item.value, dict):
        that = known.expression(item, live=False)
        return None if that is None else Objective(that=that)
    fields = Fields(item)
    severity = fields.read("severity", one_of("fail", "warn"), "fail")
    aborts = fields.read("abort", truth, False)
    that_item = fields.get("that", needed=True)
    fields.done()
    that = None if that_item is None else known.expression(that_item, live=aborts)
    if that is None:
        return None
    return Objective(that=that, is_warning=severity == "warn", aborts=aborts)

"""From the text of a plan to its values, or to all of its mistakes at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, UnsetType, structs

from jbodlab.vocabulary.errors import JbodlabError
from lab.plan import document
from lab.plan.document import Item, Mistakes
from lab.plan.plan import (
    At,
    Changes,
    ClusterKeys,
    End,
    Entry,
    Load,
    Objective,
    Plan,
    Readers,
    Steady,
    Streams,
    Topic,
    Writers,
    cluster_of,
)
from lab.plan.plan_file import EndKeys, PlanKeys, choose_client
from lab.plan.timeline import Names, Timeline

WITHOUT_ENTRIES_S = 10.0
"""How long a plan without entries runs where it has no end."""


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
    plan = None if item is None else _plan(item, source)
    if mistakes.lines:
        raise PlanError("\n".join(mistakes.lines))
    assert plan is not None
    return plan


def _plan(top: Item, source: str) -> Plan | None:
    found = document.fields(top, PlanKeys)
    if found is None:
        return None
    if "cluster" in top.value and "attach" in top.value:
        top.child("attach").wrong(
            "expected 'cluster', which starts one, or 'attach', which takes one that runs; got both"
        )
    names = Names(found.get("attach") or cluster_of(found.get("cluster") or ClusterKeys()))
    for name, keys in found.get("topics", {}).items():
        if keys is not UNSET:
            topic = Topic(name=name, **structs.asdict(keys))
            names.add_topic(top.child("topics").child(name), topic)
    topics = tuple(names.topics.values())
    load = found.get("load", ())
    for item, client in zip(top.child("load").children(), load, strict=False):
        _name_client(item, client, names)
    items = list(top.child("timeline").children())
    timeline = Timeline(items, found.get("timeline", ()), names)
    steady = _steady(top.child("steady"), found.get("steady", Steady()), names)
    entries = timeline.entries()
    end = _end(top.child("end"), found.get("end"), entries, names)
    objectives = [
        _objective(item, keys, names)
        for item, keys in zip(
            top.child("objectives").children(), found.get("objectives", ()), strict=False
        )
    ]
    return Plan(
        name=found.get("name", ""),
        hypothesis=found.get("hypothesis", ""),
        source=found.get("source", ""),
        seed=found.get("seed", 0),
        cluster=names.cluster,
        topics=topics,
        load=load,
        steady=steady,
        timeline=entries,
        end=end,
        objectives=tuple(filter(None, objectives)),
        text=source,
    )


def _name_client(item: Item, client: Load | UnsetType, names: Names) -> None:
    """Add the name of a client, also of one with mistakes, since objectives may name it."""
    if not isinstance(item.value, dict):
        return
    kind = choose_client(item)
    (default,) = (each.default for each in structs.fields(kind) if each.name == "name")
    name = item.child("name")
    names.add_owner(item, default if name is item else str(name.plain), kind.metrics)
    if isinstance(client, Writers | Readers):
        names.topic(item.child("topic"), client.topic)
    if isinstance(client, Changes):
        names.topic(item.child("changes"), client.changes)
    if isinstance(client, Streams):
        names.topic(item.child("from"), client.source)
        names.topic(item.child("to"), client.target)
    if isinstance(client, Streams) or (isinstance(client, Writers) and client.transactional):
        names.transactional.append(client.name)


def _steady(item: Item, keys: Steady, names: Names) -> Steady:
    that = [
        names.expression(each, text, live=True)
        for each, text in zip(item.child("that").children(), keys.that, strict=False)
    ]
    return structs.replace(keys, that=tuple(filter(None, that)))


def _end(item: Item, keys: EndKeys | None, entries: Sequence[Entry], names: Names) -> End:
    if keys is None:
        return End() if entries else End(instant=At(seconds=WITHOUT_ENTRIES_S))
    if keys.after:
        names.moment(item.child("after"), keys.after)
        instant = structs.replace(keys.after, plus_s=keys.plus_s or 0.0)
        return End(instant=instant, within_s=keys.within_s)
    at_s = keys.at_s or 0.0
    for entry in entries:
        if isinstance(entry.instant, At) and entry.instant.seconds >= at_s:
            item.wrong(f"the run ends at {at_s:g} s, before {entry.name!r} is carried out")
            break
    return End(instant=At(seconds=at_s), within_s=keys.within_s)


def _objective(item: Item, keys: Any, names: Names) -> Objective | None:
    if not isinstance(keys, Objective):
        that = names.expression(item, keys, live=False)
        return None if that is None else Objective(that=that)
    that = names.expression(item.child("that"), keys.that, live=keys.aborts)
    return None if that is None else structs.replace(keys, that=that)

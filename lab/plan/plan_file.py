"""The file of a plan as structs: its keys, their ranges and defaults, and its JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta, field

from fault_injection.errors import FaultError
from fault_injection.kinds import KINDS, PARAMETERS, Kind, spec
from lab.plan import targets
from lab.plan.document import Item
from lab.plan.plan import (
    BROKERS_MAX,
    PARTITIONS_MAX,
    Attach,
    Changes,
    ClusterKeys,
    Command,
    EntryKeys,
    Keys,
    Load,
    Moment,
    Objective,
    Readers,
    Steady,
    Streams,
    TopicKeys,
    Writers,
)
from lab.plan.written import (
    ChangedSettings,
    Condition,
    LongerThanZero,
    Seconds,
    TargetText,
    Text,
    Words,
    written,
)

OTHER = {"with": "in the moment"}
"""In place of the second directory, which is known when the fault is injected."""


def _parameter(kind: Kind, key: str, value: Any) -> Any:
    """Return the value of a fault's key as it is written; the second directory as a target."""
    needed = OTHER if "with" in kind.parameters else {}
    try:
        spec(kind.name, needed | {key: value})
    except FaultError as error:
        raise ValueError(str(error).removeprefix(f"invalid {key} of {kind.name}: ")) from error
    return targets.parse(str(value)) if key == "with" else value


def _fault(kind: Kind) -> Any:
    keys: dict[str, Any] = {"where": TargetText}
    for key in ("for", "mechanism", *kind.parameters):
        placeholder, meaning = PARAMETERS[key]
        types = ("string", "array") if placeholder == "LIST" else ("string", "number")
        read = written(partial(_parameter, kind, key), *types, description=meaning)
        keys[key] = (Annotated[Any, read], None)
    return _entry(kind.name, keys)


def _entry(do: str, keys: Mapping[str, Any]) -> Any:
    """Return the struct of an entry; a key is a type, or a type and a default."""
    fields = []
    for key, one in keys.items():
        wanted, *default = one if isinstance(one, tuple) else (one,)
        named = field(name=key, **({"default": default[0]} if default else {}))
        fields.append((f"{key}_", wanted, named))
    return msgspec.defstruct(
        do, fields, bases=(EntryKeys,), frozen=True, kw_only=True, tag_field="do", tag=do
    )


_TOPIC = {"topic": Text}
_PARTITION = _TOPIC | {"partition": Annotated[int, Meta(ge=0, le=PARTITIONS_MAX)]}
ACTIONS: Mapping[str, Mapping[str, Any]] = {
    "move": _PARTITION | {"to": TargetText},
    "reassign": _PARTITION | {"replicas": Words},
    "create-topic": _TOPIC
    | {
        "partitions": Annotated[int, Meta(ge=1, le=PARTITIONS_MAX)],
        "replicas": Annotated[int, Meta(ge=1, le=BROKERS_MAX)],
    },
    "delete-topic": _TOPIC,
    "elect": _PARTITION,
    "revive": {"where": TargetText},
    "set-config": {"where": TargetText, "config": ChangedSettings},
    "note": {"text": Text},
}
"""Actions beside faults, and the keys of each."""
ENTRIES: Mapping[str, type[EntryKeys]] = {
    **{kind.name: _fault(kind) for kind in KINDS.values()},
    **{do: _entry(do, keys) for do, keys in ACTIONS.items()},
}


def choose_client(item: Item) -> type[Load]:
    """Return what a client of the load is, by its keys."""
    given = item.value if isinstance(item.value, dict) else {}
    kinds: Mapping[str, type[Load]] = {
        "changes": Changes,
        "command": Command,
        "streams": Streams,
        "rate": Writers,
    }
    return next((kind for key, kind in kinds.items() if key in given), Readers)


def _choose_entry(item: Item) -> type[Keys] | None:
    if not isinstance(item.value, dict) or "do" not in item.value:
        item.wrong("missing key 'do'")
        return None
    found = ENTRIES.get(str(item.value["do"].plain))
    if found is None:
        item.value["do"].wrong(
            f"expected a fault ({', '.join(KINDS)}) or an action ({', '.join(ACTIONS)}), "
            f"got {item.value['do'].shown}"
        )
    return found


def _choose_objective(item: Item) -> Any:
    return Objective if isinstance(item.value, dict) else Condition


def _any_of(choose: Any, *names: str, also: Sequence[Any] = ()) -> Meta:
    references = [{"$ref": f"#/$defs/{name}"} for name in names]
    return Meta(extra={"choose": choose}, extra_json_schema={"anyOf": [*references, *also]})


class EndKeys(Keys, frozen=True, kw_only=True):
    """When the load ends."""

    at_s: Seconds | None = field(default=None, name="at")
    after: Moment | None = None
    plus_s: Seconds | None = field(default=None, name="plus")
    within_s: LongerThanZero = field(default=600.0, name="within")

    def __post_init__(self) -> None:
        if (self.at_s is None) == (self.after is None):
            raise ValueError("expected either 'at' or 'after'")
        if self.plus_s is not None and self.after is None:
            raise ValueError("'plus' goes with 'after' only")


Client = Annotated[
    Any, _any_of(choose_client, "Writers", "Readers", "Command", "Streams", "Changes")
]
Entry = Annotated[Any, _any_of(_choose_entry, *ENTRIES)]
Limit = Annotated[Any, _any_of(_choose_objective, "Objective", also=[{"type": "string"}])]


class PlanKeys(Keys, frozen=True, kw_only=True):
    """A whole plan."""

    rehearsal: Annotated[int, Meta(ge=1, le=1, description="version of the format")]
    name: Text
    hypothesis: Text = ""
    source: Text = ""
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    cluster: ClusterKeys | None = None
    attach: Attach | None = None
    topics: dict[str, TopicKeys]
    load: Annotated[tuple[Client, ...], Meta(min_length=1)]
    steady: Steady = Steady()
    timeline: tuple[Entry, ...] = ()
    end: EndKeys | None = None
    objectives: tuple[Limit, ...] = ()


def schema() -> dict[str, Any]:
    """Return the JSON Schema of plans."""
    structs = (PlanKeys, Writers, Readers, Command, Streams, Changes, Objective, *ENTRIES.values())
    _, found = msgspec.json.schema_components(structs, ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$ref": "#/$defs/PlanKeys",
        "$defs": _as_written(found),
    }


def _as_written(part: Any) -> Any:
    """Return a schema for what is written: without the types of what is read from it, or null."""
    if isinstance(part, list):
        return [_as_written(each) for each in part if each != {"type": "null"}]
    if not isinstance(part, dict):
        return part
    left_out = {"type", "items", "additionalProperties"} if "anyOf" in part else set()
    return {
        key: _as_written(value)
        for key, value in part.items()
        if key not in left_out and not (key == "default" and value in (None, ""))
    }

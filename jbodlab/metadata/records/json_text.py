"""The JSON text of a record, generated from its declaration.

What `json_text(to_json(record, version))` says, without the objects in between: a dump of a
metadata log spends most of its time here.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable
from functools import lru_cache, partial
from typing import cast
from uuid import UUID

from jbodlab.kafka_wire.kinds import Form, Kind
from jbodlab.kafka_wire.schema import Struct, field_specs
from jbodlab.metadata.records.json_form import double_text, string_text
from jbodlab.vocabulary import kafka_uuid

Renderer = Callable[[Struct], str]

_RENDERERS: dict[tuple[type[Struct], int, bool], Renderer] = {}

_uuid_text: Callable[[UUID], str] = lru_cache(maxsize=1 << 16)(
    lambda uuid: f'"{kafka_uuid.to_text(uuid)}"'
)


def data_text(record: Struct, version: int, *, with_unknown_tags: bool = False) -> str:
    """Return the fields of a record as Kafka's dump tool prints them, on one line.

    Args:
        record: A record, or a struct in one.
        version: Schema version whose fields are wanted.
        with_unknown_tags: Show them, too, as `to_json` does.
    """
    return renderer(type(record), version, with_unknown_tags=with_unknown_tags)(record)


def renderer(cls: type[Struct], version: int, *, with_unknown_tags: bool = False) -> Renderer:
    """Return the generated function for one version of a struct."""
    key = cls, version, with_unknown_tags
    made = _RENDERERS.get(key)
    if made is None:
        made = _RENDERERS[key] = _generate(cls, version, with_unknown_tags)
    return made


def _generate(cls: type[Struct], version: int, with_unknown_tags: bool) -> Renderer:
    """Compile ``render(value) -> str``; each member begins with a comma, the first loses it."""
    names: dict[str, object] = {
        "uuid_text": _uuid_text,
        "string_text": string_text,
        "number_text": _number_text,
        "bytes_text": _bytes_text,
        "unknown_tags_text": _unknown_tags_text,
        "nested": partial(renderer, version=version, with_unknown_tags=with_unknown_tags),
    }
    lines = ["def render(value):", "    text = ''"]
    for spec in field_specs(cls):
        if not spec.is_in(version):
            continue
        indent = "    "
        lines.append(f"{indent}field = value.{spec.name}")
        if spec.tag is not None:
            omitted = f"_{len(names)}"
            names[omitted] = spec.omitted
            lines.append(f"{indent}if field != {omitted}:")
            indent *= 2
        key = f',"{spec.json_key}":'
        lines.append(f"{indent}text += {key!r} + {_expression(spec.kind, 'field', names)}")
    if with_unknown_tags:
        lines.append("    if value.unknown_tags: text += unknown_tags_text(value.unknown_tags)")
    lines.append("    return '{' + text[1:] + '}'")
    exec(compile("\n".join(lines), f"<json text of {cls.__name__} v{version}>", "exec"), names)
    return cast("Renderer", names["render"])


def _expression(kind: Kind, value: str, names: dict[str, object]) -> str:
    """Return an expression for the JSON text of a value."""
    match kind.form:
        case Form.FIXED if kind.code == "?":
            text = f"('true' if {value} else 'false')"
        case Form.FIXED if kind.code == "d":
            text = f"number_text({value})"
        case Form.FIXED:
            text = f"str({value})"
        case Form.UUID:
            text = f"uuid_text({value})"
        case Form.STRING:
            text = f"string_text({value})"
        case Form.BYTES:
            text = f"bytes_text({value})"
        case Form.STRUCT:
            assert kind.struct is not None
            nested = f"_{len(names)}"
            names[nested] = cast("Callable[[type[Struct]], Renderer]", names["nested"])(kind.struct)
            text = f"{nested}({value})"
        case Form.ARRAY:
            assert kind.element is not None
            item = _expression(kind.element, "item", names)
            text = f"'[' + ','.join([{item} for item in {value}]) + ']'"
    return f"('null' if {value} is None else {text})" if kind.nullable else text


def _number_text(number: float) -> str:
    text = double_text(number)
    return text if math.isfinite(number) else f'"{text}"'


def _bytes_text(data: bytes) -> str:
    return f'"{b64encode(data).decode("ascii")}"'


def _unknown_tags_text(tags: tuple[tuple[int, bytes], ...]) -> str:
    shown = [f'{{"tag":{tag},"data":{_bytes_text(data)}}}' for tag, data in tags]
    return f',"unknownTaggedFields":[{",".join(shown)}]'

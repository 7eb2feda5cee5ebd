"""Records as the JSON that Kafka's dump tool prints.

The text is made by a function that is generated from the declaration: a dump of a metadata log
spends most of its time here.

Source: Kafka's generated `...JsonConverter` classes, printed by Jackson.
"""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TypeAlias, cast
from uuid import UUID

from jbodlab.kafka_wire.kinds import Form, Kind
from jbodlab.kafka_wire.schema import Struct, field_specs
from jbodlab.vocabulary import kafka_uuid

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
Renderer = Callable[[Struct], str]

_ESCAPES = {code: f"\\u{code:04X}" for code in range(0x20)} | {
    ord('"'): '\\"',
    ord("\\"): "\\\\",
    ord("\b"): "\\b",
    ord("\t"): "\\t",
    ord("\n"): "\\n",
    ord("\f"): "\\f",
    ord("\r"): "\\r",
}

_RENDERERS: dict[tuple[type[Struct], int, bool], Renderer] = {}

_uuid_text: Callable[[UUID], str] = lru_cache(maxsize=1 << 16)(
    lambda uuid: f'"{kafka_uuid.to_text(uuid)}"'
)


def data_text(record: Struct, version: int, *, with_unknown_tags: bool = False) -> str:
    """Return the fields as Kafka's dump tool prints them, on one line.

    Keys are Kafka's names with a lower-case first letter in declaration order. Untagged fields are
    always present, tagged ones only when they differ from their default. Ids are text, bytes are
    base64 with padding, infinite and undefined doubles are strings.

    Args:
        record: A record, or a struct in one.
        version: Schema version whose fields to print.
        with_unknown_tags: Add `unknownTaggedFields`, a list of tag and data, to each struct that
            has some; the dump tool does not show them.
    """
    return renderer(type(record), version, with_unknown_tags=with_unknown_tags)(record)


def to_json(
    record: Struct, version: int, *, with_unknown_tags: bool = False
) -> dict[str, JsonValue]:
    """Return the fields of `data_text` as a value."""
    text = data_text(record, version, with_unknown_tags=with_unknown_tags)
    found: dict[str, JsonValue] = json.loads(text)
    return found


def json_text(value: JsonValue) -> str:
    """Return JSON on one line without blanks, with doubles as Java prints them."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return double_text(value)
        case str():
            return string_text(value)
        case list():
            return f"[{','.join(map(json_text, value))}]"
        case dict():
            members = (f"{json_text(key)}:{json_text(item)}" for key, item in value.items())
            return f"{{{','.join(members)}}}"


def string_text(value: str) -> str:
    """Return a JSON string that escapes only the characters that must be escaped."""
    return f'"{value.translate(_ESCAPES)}"'


def double_text(number: float) -> str:
    """Return a number as Java's `Double.toString`: E notation below 10^-3 and from 10^7 on."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(number)
    text = f"{number!r}"
    if len(text.partition("e")[0].strip("-.0")) == 1:
        # Java knows no single digit and takes the two that are nearest: 4.9E-324, not 5.0E-324.
        text = f"{number:.1e}"
    mantissa, _, exponent = text.partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    power = int(exponent or 0) + len(whole) - 1
    digits = whole + fraction
    leading_zeros = len(digits) - len(digits.lstrip("0"))
    digits = digits.lstrip("0").rstrip("0")
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power - leading_zeros}"


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

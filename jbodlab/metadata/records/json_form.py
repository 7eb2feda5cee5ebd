"""Values of records as JSON, and the JSON text that Kafka's dump tool prints.

Source: Kafka's generated `...JsonConverter` classes, printed by Jackson.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from typing import TypeAlias, cast
from uuid import UUID

from jbodlab.kafka_wire.schema import Struct, field_specs
from jbodlab.vocabulary import kafka_uuid

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

_ESCAPES = {code: f"\\u{code:04X}" for code in range(0x20)} | {
    ord('"'): '\\"',
    ord("\\"): "\\\\",
    ord("\b"): "\\b",
    ord("\t"): "\\t",
    ord("\n"): "\\n",
    ord("\f"): "\\f",
    ord("\r"): "\\r",
}


def to_json(
    record: Struct, version: int, *, with_unknown_tags: bool = False
) -> dict[str, JsonValue]:
    """Return the fields as Kafka's dump tool prints them.

    Keys are Kafka's names with a lower-case first letter in declaration order. Untagged fields are
    always present, tagged ones only when they differ from their default. Ids are text, bytes are
    base64 with padding, infinite and undefined doubles are strings.

    Args:
        record: A record, or a struct in one.
        version: Schema version whose fields are wanted.
        with_unknown_tags: Add `unknownTaggedFields`, a list of tag and data, to each struct that
            has some; the dump tool does not show them.
    """
    result: dict[str, JsonValue] = {}
    for spec in field_specs(type(record)):
        if not spec.is_in(version):
            continue
        value: object = getattr(record, spec.name)
        if spec.tag is None or value != spec.omitted:
            result[spec.json_key] = json_value(
                value,
                lambda inner: to_json(inner, version, with_unknown_tags=with_unknown_tags),
            )
    if with_unknown_tags and record.unknown_tags:
        result["unknownTaggedFields"] = [
            {"tag": tag, "data": json_value(data, lambda _: None)}
            for tag, data in record.unknown_tags
        ]
    return result


def json_value(value: object, struct_to_json: Callable[[Struct], JsonValue]) -> JsonValue:
    """Return one field's value in the form that JSON has for it."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, UUID):
        return kafka_uuid.to_text(value)
    if isinstance(value, tuple):
        return [json_value(item, struct_to_json) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, float):
        return value if math.isfinite(value) else double_text(value)
    return struct_to_json(cast("Struct", value))


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
    """Return a JSON string in which only what must be escaped is."""
    return f'"{value.translate(_ESCAPES)}"'


def double_text(number: float) -> str:
    """Return what `Double.toString` returns: E notation below 10^-3 and from 10^7 on."""
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

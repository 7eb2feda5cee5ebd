"""The JSON Schema of plans is made from the structs that read them."""

from __future__ import annotations

import json
import re

from fault_injection.kinds import KINDS
from lab.plan.plan_file import ACTIONS, schema


def test_every_reference_is_defined() -> None:
    found = schema()

    names = re.findall(r'"#/\$defs/([^"]+)"', json.dumps(found))

    assert set(names) <= found["$defs"].keys()


def test_every_fault_and_action_is_an_entry_with_its_own_keys() -> None:
    definitions = schema()["$defs"]

    for do in (*KINDS, *ACTIONS):
        assert definitions[do]["properties"]["do"] == {"enum": [do]}
        assert definitions[do]["additionalProperties"] is False
    assert "delay" in definitions["slow"]["properties"]
    assert "delay" not in definitions["permission"]["properties"]


def test_values_have_the_types_that_may_be_written() -> None:
    writers = schema()["$defs"]["Writers"]

    assert writers["properties"]["size"]["anyOf"] == [{"type": "string"}, {"type": "integer"}]
    assert writers["properties"]["keys"]["maximum"] == 1_000_000
    assert writers["required"] == ["topic", "rate"]

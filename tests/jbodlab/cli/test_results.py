"""JSON of commands is declared once; the page and the schema are made from it."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from types import SimpleNamespace

import pytest
from jsonschema import Draft202012Validator
from msgspec import Struct

from admin_tool.records import as_json
from fault_injection.mechanism import Broken, Clients, Healing
from jbodlab.cli.lab_state import NodeState
from jbodlab.cli.program import main
from lab.watch.detecting import Detected
from scripts import command_page, results
from storage_tool import explain

PLACE = {"topic": "orders", "partition": 0}


def test_page_and_schema_are_current() -> None:
    page = command_page.PAGE.read_text("utf-8")

    assert page == command_page.page(page)
    assert command_page.SCHEMA.read_text("utf-8") == command_page.schema()
    assert command_page.STUB.read_text("utf-8") == command_page.stub()
    assert "(output.schema.json)" in page


def test_every_command_that_prints_json_is_on_the_page_once() -> None:
    page = command_page.PAGE.read_text("utf-8")
    found = [
        name for told in re.findall("<!-- output: (.+) -->", page) for name in told.split(", ")
    ]

    assert sorted(found) == sorted(command_page.printed())


def test_all_that_is_declared_is_printed_by_a_command() -> None:
    used, left = set[str](), list(command_page.printed().values())
    while left:
        for name in re.findall(r"[A-Z]\w+", left.pop()):
            if name not in used:
                used.add(name)
                one = results.declared()[name]
                left += [one.base, *(fields.type for fields in one.fields)]

    assert used == set(results.declared())


@pytest.mark.parametrize(
    "value",
    [{"topic": "orders"}, {**PLACE, "broker": "1"}, {**PLACE, "broker": 1, "leader": 2}, []],
    ids=["a field is missing", "a wrong type", "an unknown field", "a list"],
)
def test_what_is_not_declared_is_refused(value: object) -> None:
    results.check("BrokerReplica", json.dumps({**PLACE, "broker": 1}))
    with pytest.raises(AssertionError, match="BrokerReplica"):
        results.check("BrokerReplica", json.dumps(value))


def test_one_of_several_is_printed() -> None:
    prints = "BrokerReplica or list of BrokerReplica"

    results.check(prints, json.dumps([{**PLACE, "broker": 1}]))
    with pytest.raises(AssertionError, match=r"list of BrokerReplica: .*partition"):
        results.check(prints, json.dumps([{"topic": "orders"}]))


def test_tests_hold_what_commands_print_in_this_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["storage", "explain", "--output", "json"]) == 0
    monkeypatch.setattr(explain, "_summary", lambda name: {"type": name, "record": name})
    with pytest.raises(AssertionError, match=r"RecordType: .*meaning"):
        main(["storage", "explain", "--output", "json"])


def test_types_for_mypy_are_those_of_the_declaration() -> None:
    text = command_page.stub()

    assert "class BrokerReplica(Place):\n    broker: int\n" in text
    assert "    conditions: NotRequired[Sequence[Condition]]\n" in text
    assert "    configs: Mapping[str, str | None]\n" in text
    assert "    | Sequence[ListedTopic]\n" in text


@pytest.mark.parametrize(("key", "encoding"), [(b"k", "text"), (b"\xff", "base64"), (None, None)])
def test_a_record_is_one_also_by_the_schema(key: bytes | None, encoding: str | None) -> None:
    message = SimpleNamespace(
        topic=lambda: "orders",
        partition=lambda: 0,
        offset=lambda: 7,
        timestamp=lambda: (1, 1000),
        key=lambda: key,
        value=lambda: b"v",
        headers=lambda: [("h", None)],
    )

    text = as_json(message).decode()

    results.check("Record", text)
    assert json.loads(text)["key_encoding"] == encoding
    schema = json.loads(command_page.SCHEMA.read_text("utf-8"))
    Draft202012Validator(schema).validate({"records consume": json.loads(text)})


def names_of(declared: str) -> set[str]:
    """The names of the fields of a struct, without those of its base."""
    return {name for each in results.declared()[declared].fields for name in each.names}


@pytest.mark.parametrize(
    ("value", "declared", "more"),
    [
        (Healing, "HealedFault", {"id"}),
        (Broken, "Broken", set()),
        (Clients, "Clients", set()),
        (Detected, "Detected", set()),
        (NodeState, "Node", set()),
    ],
)
def test_what_is_printed_as_it_is_has_the_fields_that_are_declared(
    value: type, declared: str, more: set[str]
) -> None:
    own = (
        set(value.__struct_fields__)
        if issubclass(value, Struct)
        else {field.name for field in fields(value)}
    )

    assert names_of(declared) == own | more

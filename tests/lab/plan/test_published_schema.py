"""The JSON Schema of plans that editors use: it is current, and judges as the reader does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from lab.plan import plans
from lab.plan.plans import shipped
from lab.plan.vocabulary import (
    OF_ALL,
    OF_CHANGES,
    OF_CLIENTS,
    OF_CLUSTER,
    OF_COMMAND,
    OF_FAULT,
    OF_READERS,
    OF_STREAMS,
    OF_TRANSACTIONS,
    OF_WRITERS,
)
from scripts import plan_schema
from tests.lab.plan.examples import GOOD, WRONG

PLANS = Path(plans.__file__).parent
SCHEMA = json.loads(plan_schema.FILE.read_text("utf-8"))
SEEN = (
    "a version that is not known",
    "no name",
    "a key that is not known, and one that is near",
    "no mapping",
    "too many brokers",
    "a kind of disk that is not known",
    "a topic's number that is a text",
    "no load",
    "acks of a kind that is not known",
    "neither a fault nor an action",
    "no target",
    "a word that the fault does not know",
    "a repetition without an interval",
    "an action without its words",
    "a severity that is not known",
    "a key without a value",
)
"""The wrong plans in which a key is missing or unknown, or has a value of a wrong type or range."""


def mistakes(text: str) -> list[str]:
    found = Draft202012Validator(SCHEMA).iter_errors(yaml.safe_load(text))
    return [error.message for error in found]


def test_the_published_schema_is_current() -> None:
    assert plan_schema.FILE.read_text("utf-8") == plan_schema.text()


def test_the_published_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_plan_names_the_schema_and_is_valid(name: str) -> None:
    text = shipped()[name]

    assert mistakes(text) == []
    head, _, path = text.splitlines()[0].partition("$schema=")
    assert head == "# yaml-language-server: "
    assert (PLANS / path).resolve() == plan_schema.FILE


def test_the_plan_of_the_documentation_is_valid() -> None:
    page = (plan_schema.ROOT / "docs" / "rehearsals.md").read_text("utf-8")

    assert mistakes(page.split("```yaml\n")[1].split("```")[0]) == []


METRICS = {
    "": OF_CLUSTER,
    "NAME": OF_FAULT | OF_CLIENTS,
    "all": OF_ALL,
    "writers": OF_WRITERS,
    "transactions": OF_TRANSACTIONS,
    "readers": OF_READERS,
    "app": OF_COMMAND,
    "words": OF_STREAMS,
    "controller": OF_CHANGES,
}
"""Names that can be asked for, by the owner's name in the documentation."""


def test_the_documentation_names_every_metric_and_no_other() -> None:
    page = (plan_schema.ROOT / "docs" / "rehearsals.md").read_text("utf-8")
    table = page.split("\n## Metrics\n")[1].split("\n## ")[0]
    found: dict[str, set[str]] = {owner: set() for owner in METRICS}
    for names in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE):
        owner = ""
        for word in re.findall(r"[\w.]+(?=[`, ()])", re.sub(r"\([^)]*\)", "", names)):
            before, _, name = word.rpartition(".")
            owner = before or (owner if word.startswith(".") else "")
            found[owner].add(name)

    assert found == {owner: set(metrics) for owner, metrics in METRICS.items()}


def test_the_plan_that_all_wrong_ones_are_made_of_is_valid() -> None:
    assert mistakes(GOOD) == []


@pytest.mark.parametrize("case", SEEN)
def test_a_plan_that_the_reader_refuses_for_its_keys_is_not_valid(case: str) -> None:
    (old, new, *_), _ = WRONG[case]

    assert mistakes(GOOD.replace(old, new))

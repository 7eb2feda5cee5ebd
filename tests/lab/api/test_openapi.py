"""The OpenAPI document is made from the declarations, and says all of them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from lab.api import openapi
from lab.api.problems import TITLES
from lab.api.served import OPERATIONS
from lab.cluster.spec import SETTINGS, Form

ROOT = Path(__file__).resolve().parents[3]
DOCUMENT = json.loads(json.dumps(openapi.document()))


def operations() -> list[dict[str, Any]]:
    return [one for methods in DOCUMENT["paths"].values() for one in methods.values()]


def test_every_request_has_a_name_of_its_own() -> None:
    names = [one["operationId"] for one in operations()]

    assert sorted(names) == sorted(one.name for among in OPERATIONS.values() for one in among)
    assert len(set(names)) == len(names)


def test_every_reference_leads_somewhere() -> None:
    for reference in re.findall(r'"\$ref": "#/components/(\w+)/(\w+)"', json.dumps(DOCUMENT)):
        assert reference[1] in DOCUMENT["components"][reference[0]]


def test_fields_of_a_path_are_declared_as_such() -> None:
    for path, methods in DOCUMENT["paths"].items():
        for one in methods.values():
            told = {p["name"] for p in one.get("parameters", ()) if p["in"] == "path"}
            assert told == set(re.findall(r"\{(\w+)\}", path))


def test_every_status_of_a_problem_has_a_title() -> None:
    told = {status for one in operations() for status in one["responses"] if int(status) >= 400}

    assert told <= {str(status) for status in TITLES}


def test_a_cluster_has_every_setting_of_its_description() -> None:
    known = set(DOCUMENT["components"]["schemas"]["NewCluster"]["properties"])

    assert known == {name for name, one in SETTINGS.items() if one.form is not Form.USER}


def test_the_shipped_document_is_the_one_that_is_served() -> None:
    assert json.loads((ROOT / "docs" / "openapi.json").read_text()) == DOCUMENT

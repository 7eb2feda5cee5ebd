"""The OpenAPI 3.1 document, made from the declarations of the requests and their values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from lab.api import problems
from lab.api.operations import EVENTS, JSON, TAR, Operation
from lab.api.served import OPERATIONS
from lab.api.values import Problem

VERSION = "1.0.0"
_REF = "#/components/schemas/{name}"
_EVERY = (400, 401, 403, 405, 413, 415, 421, 500)
"""Statuses of problems that every request may have."""
_PLACE = re.compile(r"\{(\w+)\}")


def document() -> dict[str, Any]:
    """Return the document."""
    operations = [one for among in OPERATIONS.values() for one in among]
    types = [
        kind for one in operations for kind in (one.body, one.gives, one.asked) if kind is not None
    ]
    found, components = msgspec.json.schema_components([*types, Problem], ref_template=_REF)
    schemas = dict(zip(map(_key, [*types, Problem]), found, strict=True))
    paths: dict[str, Any] = {}
    for one in operations:
        paths.setdefault(f"/v1{one.path}", {})[one.method.lower()] = _operation(
            one, schemas, components
        )
    asked = {one.asked.__name__ for one in operations}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "jbodlab",
            "version": VERSION,
            "description": "A Kafka-compatible cluster whose disks you may break.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {}],
        "paths": paths,
        "components": {
            "schemas": {key: one for key, one in components.items() if key not in asked},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {
                str(status): {
                    "description": title,
                    "content": {problems.CONTENT_TYPE: {"schema": schemas[_key(Problem)]}},
                }
                for status, (_, title) in problems.TITLES.items()
            },
        },
    }


def _key(kind: Any) -> str:
    return repr(kind)


def _operation(
    one: Operation, schemas: Mapping[str, Any], components: Mapping[str, Any]
) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": one.summary}
    if one.gives is not None:
        answer["content"] = {JSON: {"schema": schemas[_key(one.gives)]}}
    elif one.media == EVENTS:
        # A schema would be read as that of the whole stream by some, as that of an event by others.
        answer["content"] = {EVENTS: {}}
    elif one.media != JSON:
        binary = {"type": "string", "format": "binary"} if one.media == TAR else {"type": "string"}
        answer["content"] = {one.media: {"schema": binary}}
    found: dict[str, Any] = {
        "operationId": one.name,
        "summary": one.summary,
        "responses": {
            str(one.status): answer,
            **{
                str(status): {"$ref": f"#/components/responses/{status}"}
                for status in sorted({*_EVERY, *one.errors})
            },
        },
    }
    if parameters := _parameters(one, components):
        found["parameters"] = parameters
    if one.body is not None:
        found["requestBody"] = {
            "required": True,
            "content": {JSON: {"schema": schemas[_key(one.body)]}},
        }
    if one.media == EVENTS:
        found["description"] = (
            "Server-sent events; the data of each is an object with `id`, `whole`, `sections` and "
            "`events`. `Last-Event-ID` continues."
        )
    return found


def _parameters(one: Operation, components: Mapping[str, Any]) -> list[dict[str, Any]]:
    in_path = set(_PLACE.findall(one.path))
    found: list[dict[str, Any]] = []
    for name, value in components[one.asked.__name__]["properties"].items():
        found.append(
            {
                "name": name,
                "in": "path" if name in in_path else "query",
                "required": name in in_path,
                "schema": value,
            }
        )
    if one.once:
        found.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": False,
                "description": "A second request with the same key gets the answer of the first.",
                "schema": {"type": "string", "minLength": 1, "maxLength": 200},
            }
        )
    return found

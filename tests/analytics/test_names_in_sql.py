from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from analytics.derive.log_span import LogSpan
from analytics.derive.sql_files import Scope, texts
from analytics.page.sections import figures_of
from analytics.tables.names_in_sql import names_in

SPAN = LogSpan(first_ms=0, last_ms=1000, end_ms=1000)
QUERIES = {name: sql for scope in Scope for name, sql in texts(scope).items()} | {
    f"figure {figure.name}": figure.query for figure in figures_of(SPAN, 0.99)
}


def nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
    if isinstance(tree, dict | list):
        for each in tree.values() if isinstance(tree, dict) else tree:
            yield from nodes(each)


@pytest.mark.parametrize("name", QUERIES)
def test_the_tables_of_a_query_are_those_that_the_parser_finds(name: str) -> None:
    with duckdb.connect() as connection:
        asked = "SELECT json_serialize_sql(?)"
        ((text,),) = connection.execute(asked, [QUERIES[name]]).fetchall()
    found = list(nodes(json.loads(text)))
    defined = {each["key"] for node in found for each in node.get("cte_map", {}).get("map", ())}
    named = {node["table_name"] for node in found if node.get("type") == "BASE_TABLE"}

    assert set(names_in(QUERIES[name])) == named - defined

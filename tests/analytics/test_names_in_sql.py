from __future__ import annotations

import json
from collections.abc import Iterator
from string import Template
from typing import Any

import duckdb
import pytest

from analytics.engines.sql import translate
from analytics.page.log_span import LogSpan
from analytics.page.sections import FIGURES
from analytics.tables.names_in_sql import names_in
from analytics.tables.sql_files import sql_files

SPAN = LogSpan(first_ms=0, last_ms=1000, end_ms=1000)
QUERIES = {name: file.sql for name, file in sql_files().items()} | {
    f"figure {figure.name}": Template(figure.sql).substitute(SPAN.words(0.99)) for figure in FIGURES
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
        sql = translate(QUERIES[name]) if name in sql_files() else QUERIES[name]
        ((text,),) = connection.execute(asked, [sql]).fetchall()
    found = list(nodes(json.loads(text)))
    defined = {each["key"] for node in found for each in node.get("cte_map", {}).get("map", ())}
    named = {node["table_name"] for node in found if node.get("type") == "BASE_TABLE"}

    assert set(names_in(QUERIES[name])) == named - defined

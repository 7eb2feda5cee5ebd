from __future__ import annotations

import pytest

from analytics.derive.bucket import BUCKET_TABLES
from analytics.derive.cluster import CLUSTER_TABLES
from analytics.derive.log_end import LogEnd
from analytics.derive.sql_files import Scope, SqlFiles, texts
from analytics.tables.derived import BROKER_LOG_LINES, DERIVED_TABLES, FAILURES, WHAT_IF
from analytics.tables.table import Table
from jbodlab.vocabulary import directory_id as directory_ids
from jbodlab.vocabulary import kafka_uuid
from tests.analytics.builders import uid
from tests.analytics.small_logs import InMemory, answered

BY_PYTHON = {BROKER_LOG_LINES}


def test_every_derived_table_has_its_file_in_one_scope() -> None:
    made = [*BUCKET_TABLES, *CLUSTER_TABLES]

    assert len(made) == len({table.name for table in made})
    assert set(DERIVED_TABLES) - BY_PYTHON <= set(made)
    for table in made:
        assert sum(table.name in texts(scope) for scope in Scope) == 1, table.name


@pytest.mark.parametrize(
    ("scope", "table"),
    [
        *((Scope.BUCKET, table) for table in BUCKET_TABLES),
        *((Scope.CLUSTER, table) for table in (*CLUSTER_TABLES, FAILURES) if table != WHAT_IF),
    ],
    ids=lambda each: each.name,
)
def test_of_nothing_comes_nothing(scope: Scope, table: Table) -> None:
    assert answered(scope, table) == []


def test_macros_know_the_reserved_directories() -> None:
    end = LogEnd(time_us=None, bucket_ms=10)
    names = {"unassigned": directory_ids.UNASSIGNED, "lost": directory_ids.LOST}
    names["migrating"] = directory_ids.MIGRATING
    with SqlFiles(Scope.CLUSTER, InMemory({}), end) as sql:
        for name, reserved in names.items():
            text = kafka_uuid.to_text(reserved)
            assert sql.rows(f"SELECT {name}() = '{text}', is_real('{text}')") == [(True, False)]
        real = kafka_uuid.to_text(uid(1))
        assert sql.rows(f"SELECT is_real('{real}'), is_real(NULL)") == [(True, False)]


def test_stretches_of_time_begin_at_multiples_of_their_length() -> None:
    with SqlFiles(Scope.CLUSTER, InMemory({}), LogEnd(time_us=None, bucket_ms=10)) as sql:
        asked = "SELECT stretch(25_000), stretch(20_000), stretch(-1)"
        assert sql.rows(asked) == [(20_000, 20_000, -10_000)]

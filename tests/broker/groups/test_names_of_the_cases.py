"""Each case of the rules for groups and transactions has a test or a scenario named after it.

Each invariant is named in the text of a test, a scenario or a checker that checks it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.broker.groups.scenario import FILES, scenarios_of

TESTS = Path(__file__).parents[2]
CHECKS = [path for name in ("simulation", "broker/groups") for path in (TESTS / name).rglob("*.py")]
SCENARIOS = "\n".join(path.read_text() for path in FILES)
_WORDS = """
    first_find_creates find_with_few_brokers find_batched hash_known commit_then_fetch
    commit_waits_for_replica fetch_sees_committed_only commit_below_min_isr commit_disk_dies
    acked_commit_disk_dies coordinator_dies_loading load_answers load_damaged load_after_compaction
    resign_answers_parked move_coordinator_directory move_source_dies revived_coordinator
    one_replica_directory_dead other_directory_unaffected join_member_id_required join_initial_delay
    join_wrong_inputs protocol_vote sync_missing_member sync_never join_timeout static_restart
    static_restart_failover static_duplicate commit_in_rebalance failover_in_rebalance
    group_max_size offsets_expire topic_deleted_recreated delete_group_live 848_join_leave
    848_slow_revoker 848_lost_answer 848_failover_mid_reconcile 848_static 848_regex
    848_upgrade_downgrade 848_commit_old_epoch compact_basic compact_tombstone compact_transactions
    compact_producer_state compact_crash_points compact_disk_dies compact_and_move
    compact_under_load_of_shard txn_basic txn_fence txn_timeout txn_coordinator_disk_dies
    txn_data_disk_dies txn_late_produce txn_end_lost_answer txn_offsets
    txn_one_broker_two_directories clients_matrix tools
"""
CASES = _WORDS.split()
INVARIANTS = [f"I{number}" for number in range(1, 19)]
Function = ast.FunctionDef | ast.AsyncFunctionDef


@pytest.fixture(scope="module")
def functions() -> list[Function]:
    """All of the tests, with the checks that are made after each step, and by the simulation."""
    return [
        node
        for path in sorted({*TESTS.rglob("test_*.py"), *CHECKS})
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, Function)
    ]


def is_named(case: str, names: Iterable[str]) -> bool:
    """Return whether one of the names is of this case, apart from longer ones that hold it."""
    longer = "|".join(other for other in CASES if other != case and case in other)
    if longer:
        names = (re.sub(rf"_({longer})(?=_|$)", "_", name) for name in names)
    return any(re.search(rf"_{case}(_|$)", name) for name in names)


def test_each_case_has_a_test_named_after_it(functions: list[Function]) -> None:
    names = [each.name for each in functions if each.name.startswith("test_")]
    names += [re.sub(r"\W+", "_", f" {title}") for title in scenarios_of(SCENARIOS)]

    assert not [case for case in CASES if not is_named(case, names)]


def test_a_case_is_not_named_by_a_longer_one_or_by_part_of_a_word() -> None:
    assert is_named("static_restart", ["test_static_restart", "test_static_restart_failover"])
    assert not is_named("static_restart", ["test_static_restart_failover", "test_static_restarts"])
    assert not is_named("commit_disk_dies", ["test_acked_commit_disk_dies"])


def test_each_invariant_is_named_where_it_is_checked(functions: list[Function]) -> None:
    texts = "\n".join([SCENARIOS, *(ast.get_docstring(each) or "" for each in functions)])

    assert not [each for each in INVARIANTS if not re.search(rf"\b{each}\b", texts)]

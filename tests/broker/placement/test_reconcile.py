from __future__ import annotations

import pytest

from broker.placement.reconcile import ReplicaFacts, reconcile
from jbodlab.vocabulary.directory_id import LOST, MIGRATING, UNASSIGNED
from tests.broker.disks import directory_id

D1, D2, UNKNOWN = directory_id(1), directory_id(2), directory_id(8)
DIRECTORIES = {
    **{"d1": D1, "d2": D2, "?": UNKNOWN, "-": None},
    **{"unassigned": UNASSIGNED, "lost": LOST, "migrating": MIGRATING},
}


@pytest.mark.parametrize(
    ("rule", "assigned", "actual", "future", "offline", "expected"),
    [
        ("in its assigned directory it is left alone", "d1", "d1", "-", "no", "NONE"),
        ("in another directory it is reported", "d2 unassigned lost migrating ?", "d1", "-",
         "no yes", "REPORT"),
        ("without a directory it is created anywhere", "unassigned", "-", "-", "no yes",
         "CREATE_ANYWHERE"),
        ("in an online directory it is created there", "d2", "-", "-", "no yes", "CREATE"),
        ("in an offline directory it is not created again", "lost migrating ?", "-", "-", "yes",
         "NONE"),
        ("of a removed directory it is created again when none is offline", "lost migrating ?",
         "-", "-", "no", "CREATE_ANYWHERE"),
        ("a future replica in the assigned directory is promoted", "d2", "- d1", "d2", "no",
         "PROMOTE_FUTURE"),
        ("a future replica elsewhere changes nothing", "d1", "d1", "d2", "no", "NONE"),
        ("a future replica elsewhere changes nothing", "d1", "-", "d2", "no", "CREATE"),
    ],
)  # fmt: skip
def test_what_is_done_about_a_replica(
    rule: str, assigned: str, actual: str, future: str, offline: str, expected: str
) -> None:
    for wanted in assigned.split():
        for is_in in actual.split():
            for any_offline in offline.split():
                facts = ReplicaFacts(
                    assigned=DIRECTORIES[wanted] or UNASSIGNED,
                    actual=DIRECTORIES[is_in],
                    future=DIRECTORIES[future],
                    any_offline=any_offline == "yes",
                )
                assert reconcile(facts, frozenset({D1, D2})).name == expected, (rule, facts)

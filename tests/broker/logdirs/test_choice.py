from __future__ import annotations

from broker.logdirs.choice import candidates, choose_directory
from jbodlab.directory_id import LOST, MIGRATING, UNASSIGNED
from tests.broker.disks import directory_id

D1, D2, D3 = directory_id(1), directory_id(2), directory_id(3)
COUNTS = {D1: 2, D2: 0, D3: 1}


def test_a_new_replica_goes_where_the_fewest_are() -> None:
    assert choose_directory(COUNTS, target=UNASSIGNED) == D2
    assert candidates(COUNTS) == (D2, D3, D1)


def test_equally_loaded_directories_come_in_configured_order() -> None:
    assert candidates({D3: 1, D1: 1, D2: 1}) == (D3, D1, D2)


def test_the_assigned_directory_wins_over_the_least_loaded() -> None:
    assert candidates(COUNTS, target=D1) == (D1,)


def test_the_preferred_directory_wins_over_the_assigned() -> None:
    assert candidates(COUNTS, target=D1, preferred=D3) == (D3,)


def test_an_id_that_is_not_online_leaves_the_choice_free() -> None:
    for target in (LOST, MIGRATING, directory_id(8)):
        assert choose_directory(COUNTS, target=target) == D2


def test_without_a_directory_there_is_no_choice() -> None:
    assert choose_directory({}) is None


def test_full_directories_are_taken_only_where_all_are_full() -> None:
    assert candidates(COUNTS, full={D2}) == (D3, D1)
    assert candidates(COUNTS, full={D1, D2, D3}) == (D2, D3, D1)
    assert choose_directory(COUNTS, target=LOST, full={D2, D3}) == D1


def test_who_names_a_full_directory_gets_it() -> None:
    assert candidates(COUNTS, target=D2, full={D2}) == (D2,)
    assert candidates(COUNTS, preferred=D2, full={D2}) == (D2,)

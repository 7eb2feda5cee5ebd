from __future__ import annotations

from broker.placement.choice import SpreadByBytes, candidates
from jbodlab.vocabulary.directory_id import LOST, MIGRATING, UNASSIGNED
from jbodlab.vocabulary.ids import DirectoryId
from tests.broker.disks import directory_id

D1, D2, D3 = directory_id(1), directory_id(2), directory_id(3)
COUNTS = {D1: 2, D2: 0, D3: 1}


def test_a_new_replica_goes_where_the_fewest_are() -> None:
    assert candidates(COUNTS, target=UNASSIGNED) == (D2, D3, D1)


def test_equally_loaded_directories_come_in_configured_order() -> None:
    assert candidates({D3: 1, D1: 1, D2: 1}) == (D3, D1, D2)


def test_the_assigned_directory_wins_over_the_least_loaded() -> None:
    assert candidates(COUNTS, target=D1) == (D1,)


def test_the_preferred_directory_wins_over_the_assigned() -> None:
    assert candidates(COUNTS, target=D1, preferred=D3) == (D3,)


def test_an_id_that_is_not_online_leaves_the_choice_free() -> None:
    for target in (LOST, MIGRATING, directory_id(8)):
        assert candidates(COUNTS, target=target) == (D2, D3, D1)


def test_without_a_directory_there_is_no_choice() -> None:
    assert candidates({}) == ()


def test_full_directories_are_taken_only_where_all_are_full() -> None:
    assert candidates(COUNTS, full={D2}) == (D3, D1)
    assert candidates(COUNTS, full={D1, D2, D3}) == (D2, D3, D1)
    assert candidates(COUNTS, target=LOST, full={D2, D3}) == (D1,)


def test_who_names_a_full_directory_gets_it() -> None:
    assert candidates(COUNTS, target=D2, full={D2}) == (D2,)
    assert candidates(COUNTS, preferred=D2, full={D2}) == (D2,)


def spread_of(free: dict[DirectoryId, int], count: int, spread: SpreadByBytes) -> list[DirectoryId]:
    chosen = []
    for _ in range(count):
        (best, *_) = candidates(spread.loads(free))
        spread.placed(best, free[best])
        chosen.append(best)
    return chosen


def test_replicas_by_bytes_go_out_in_the_ratio_of_free_bytes_and_mixed() -> None:
    chosen = spread_of({D1: 200 << 30, D2: 100 << 30, D3: 100 << 30}, 100, SpreadByBytes())
    assert [chosen.count(each) for each in (D1, D2, D3)] == [50, 25, 25]
    assert all(chosen[i : i + 4].count(D1) == 2 for i in range(0, 100, 4))


def test_an_empty_disk_gets_its_share_and_not_everything() -> None:
    spread = SpreadByBytes()
    spread_of({D1: 50 << 30, D2: 50 << 30}, 500, spread)
    chosen = spread_of({D1: 50 << 30, D2: 50 << 30, D3: 100 << 30}, 40, spread)
    assert 19 <= chosen.count(D3) <= 21
    assert all(9 <= chosen.count(each) <= 11 for each in (D1, D2))


def test_a_disk_without_room_gets_nothing_beside_others() -> None:
    chosen = spread_of({D1: 0, D2: 1 << 30}, 50, SpreadByBytes())
    assert set(chosen) == {D2}


def test_a_cordoned_directory_is_never_chosen_nor_wished_for() -> None:
    counts = {D1: 0, D2: 5, D3: 9}
    assert candidates(counts, cordoned={D1}) == (D2, D3)
    assert candidates(counts, cordoned={D1}, preferred=D1) == (D2, D3)
    assert candidates(counts, cordoned={D1, D2, D3}) == ()
    # Not even where all others are full.
    assert candidates(counts, cordoned={D1}, full={D2, D3}) == (D2, D3)
    # A replica that the metadata has there lives there.
    assert candidates(counts, cordoned={D1}, target=D1) == (D1,)

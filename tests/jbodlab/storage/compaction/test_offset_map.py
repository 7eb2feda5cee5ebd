from __future__ import annotations

import random

from jbodlab.storage.compaction.offset_map import FIRST_SLOTS, SLOT_BYTES, OffsetMap


def test_the_newest_offset_of_each_key_is_known_also_when_the_table_grows():
    found, model = OffsetMap(FIRST_SLOTS * SLOT_BYTES * 40), {}
    choose = random.Random(5)
    for offset in range(30_000):
        key = b"%d" % choose.randrange(9_000)
        assert found.put(key, offset)
        model[key] = offset

    assert {key: found.get(key) for key in model} == model
    assert len(found) == len(model)
    assert found.get(b"another") == -1


def test_a_full_map_takes_newer_offsets_of_its_keys_and_no_other_key():
    found = OffsetMap(10 * SLOT_BYTES)

    taken = [found.put(b"%d" % number, number) for number in range(12)]

    assert taken == [True] * 9 + [False] * 3
    assert found.capacity == len(found) == 9
    assert found.utilization == 1
    assert found.put(b"3", 99)
    assert (found.get(b"3"), found.get(b"10")) == (99, -1)


def test_the_table_is_no_larger_than_its_limit():
    found = OffsetMap(1 << 20)

    while found.put(b"%d" % len(found), 1):
        pass

    assert len(found._table) <= 1 << 20
    assert len(found) == found.capacity

"""The state of a log against a list of its batches: any changes, in any order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jbodlab.record_batch.record_batch import read_header
from jbodlab.storage.log import checkpointed
from jbodlab.storage.log.instructions import (
    CreateSegment,
    CutSegment,
    Instructions,
    SetAside,
    WriteAt,
    WriteEpochs,
)
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.storage.log.log_state import LogState
from jbodlab.storage.log.segment_ranges import CutPoint
from jbodlab.storage.log.segments import ActiveSegment
from tests.builders import batch_at

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100, retention_ms=-1, retention_bytes=-1)


class Model:
    """Segments as lists of batches, and the files that the instructions make."""

    def __init__(self) -> None:
        self.state, instructions = LogState.empty(CONFIG)
        self.batches: list[bytes] = []
        self.files: dict[int, bytearray] = {}
        self.epochs: tuple[tuple[int, int], ...] = ()
        self.epoch = 0
        self.carry_out(instructions)

    def carry_out(self, instructions: Instructions) -> None:
        for each in instructions:
            match each:
                case CreateSegment():
                    self.files[each.base_offset] = bytearray()
                case WriteAt():
                    assert len(self.files[each.base_offset]) == each.position
                    self.files[each.base_offset] += b"".join(each.buffers)
                case CutSegment():
                    assert each.size <= len(self.files[each.base_offset])
                    del self.files[each.base_offset][each.size :]
                case SetAside():
                    del self.files[each.base_offset]
                case WriteEpochs():
                    self.epochs = each.entries

    def append(self, counts: list[int]) -> None:
        batches = []
        offset = self.state.end_offset
        for count in counts:
            batches.append(batch_at(offset, count, epoch=self.epoch))
            offset += count
        headers = [read_header(batch) for batch in batches]
        self.carry_out(self.state.append(batches, headers))
        self.batches += batches

    def truncate(self, offset: int) -> None:
        request = self.state.cut_request(offset)
        if request is None:
            return
        kept = [batch for batch in self.batches if read_header(batch).next_offset <= offset]
        active = ActiveSegment(request.segment_range.base_offset)
        for batch in kept:
            header = read_header(batch)
            if header.base_offset >= active.base_offset:
                active.note(header, CONFIG.index_interval_bytes)
        producers = self.state.producers.copy()
        producers.clear()
        for batch in kept:
            producers.update(read_header(batch))
        needed = None if request.snapshots is None else producers
        self.carry_out(self.state.truncate(CutPoint(request, active, needed)))
        self.batches = kept

    def advance(self, offset: int) -> None:
        self.carry_out(self.state.advance_start(min(offset, self.state.end_offset)))
        self.carry_out(self.state.retain(0, self.state.end_offset))
        self.carry_out(self.state.drop_below(self.state.start_offset, 0))
        first = self.state.segments.first_base_offset
        self.batches = [batch for batch in self.batches if read_header(batch).base_offset >= first]

    def check(self) -> None:
        state = self.state
        assert sorted(self.files) == list(state.segments.base_offsets)
        assert b"".join(self.files[base] for base in sorted(self.files)) == b"".join(self.batches)
        assert [len(self.files[each.base_offset]) for each in state.segments.all] == [
            each.size for each in state.segments.all
        ]
        assert state.start_offset <= state.end_offset
        assert state.recovery_point <= state.end_offset
        assert checkpointed.recovery_point(state) <= state.active.base_offset
        assert self.epochs == state.epochs.entries
        if self.batches:
            assert state.end_offset == read_header(self.batches[-1]).next_offset
            entry = state.producers.entry(7)
            assert entry is not None
            assert entry.last_sequence == state.end_offset - 1
        for batch in self.batches:
            header = read_header(batch)
            segment_range, *_ = state.segments.ranges(header.base_offset)
            assert segment_range.base_offset <= header.base_offset < segment_range.next_offset


CHANGES = st.one_of(
    st.tuples(st.just("append"), st.lists(st.integers(1, 4), min_size=1, max_size=5)),
    st.tuples(st.just("truncate"), st.integers(0, 60)),
    st.tuples(st.just("epoch"), st.just(0)),
    st.tuples(st.just("advance"), st.integers(0, 60)),
    st.tuples(st.just("sync"), st.booleans()),
)


@given(st.lists(CHANGES, max_size=25))
def test_state_and_files_say_the_same_after_any_changes(changes: list[tuple[str, object]]) -> None:
    model = Model()
    for name, argument in changes:
        match name, argument:
            case "append", list(counts):
                model.append(counts)
            case "truncate", int(offset):
                model.truncate(max(offset, model.state.segments.first_base_offset))
            case "epoch", _:
                model.epoch += 1
                model.carry_out(model.state.assign_epoch(model.epoch))
            case "advance", int(offset):
                model.advance(offset)
            case "sync", bool(with_active):
                model.state.synced(model.state.sync_request(with_active=with_active))
        model.check()

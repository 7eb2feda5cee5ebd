"""The states of a move, row by row of their table."""

from __future__ import annotations

import pytest

from broker.moves.move_states import TRANSITIONS, MoveEvent, MoveInstruction, MoveState, next_step

S, E, Do = MoveState, MoveEvent, MoveInstruction
PROMISED = (S.ASSIGNMENT_QUEUED, S.ASSIGNMENT_ACCEPTED)
OVER = (S.SWAPPED, S.CANCELLED, S.FAILED)


def play(*events: MoveEvent) -> tuple[MoveState, list[MoveInstruction]]:
    state, done = S.COPYING, []
    for event in events:
        state, instructions = next_step(state, event)
        done += instructions
    return state, done


def test_a_move_that_goes_well_asks_once_and_swaps_when_accepted() -> None:
    state, done = play(E.CAUGHT_UP, E.CAUGHT_UP, E.ACCEPTED, E.SWAPPED)

    assert state is S.SWAPPED
    assert done == [Do.ASK_FOR_TARGET, Do.PROMOTE, Do.RETIRE_SOURCE]


def test_nothing_is_asked_back_that_was_not_asked_for() -> None:
    for event in (E.CANCEL, E.TARGET_FAILED, E.SOURCE_FAILED, E.NO_ROOM):
        _, done = next_step(S.COPYING, event)
        assert Do.ASK_BACK not in done


@pytest.mark.parametrize("state", PROMISED)
@pytest.mark.parametrize(
    ("event", "expected", "then"),
    [
        (E.CANCEL, S.CANCELLED, Do.DELETE_COPY),
        (E.TARGET_FAILED, S.FAILED, Do.FORGET_COPY),
        (E.SOURCE_FAILED, S.SUSPENDED, Do.KEEP_COPY),
        (E.NO_ROOM, S.COPYING, None),
    ],
)
def test_what_was_asked_for_is_asked_back_first(
    state: MoveState, event: MoveEvent, expected: MoveState, then: MoveInstruction | None
) -> None:
    after, done = next_step(state, event)

    assert after is expected
    assert done == ((Do.ASK_BACK,) if then is None else (Do.ASK_BACK, then))


def test_a_copy_is_kept_while_its_source_is_away_and_goes_on_with_it() -> None:
    state, done = play(E.SOURCE_FAILED, E.SOURCE_BACK, E.CAUGHT_UP)

    assert state is S.ASSIGNMENT_QUEUED
    assert done == [Do.KEEP_COPY, Do.ASK_FOR_TARGET]


def test_a_copy_whose_source_is_away_may_still_be_given_up() -> None:
    assert play(E.SOURCE_FAILED, E.CANCEL) == (S.CANCELLED, [Do.KEEP_COPY, Do.DELETE_COPY])
    assert play(E.SOURCE_FAILED, E.TARGET_FAILED) == (S.FAILED, [Do.KEEP_COPY, Do.FORGET_COPY])


@pytest.mark.parametrize("state", OVER)
def test_after_the_end_nothing_happens(state: MoveState) -> None:
    for event in set(E) - {E.SWAPPED}:
        assert next_step(state, event) == (state, ())


def test_a_late_acceptance_means_nothing() -> None:
    for state in (S.COPYING, S.SUSPENDED, *OVER):
        assert next_step(state, E.ACCEPTED) == (state, ())


@pytest.mark.parametrize("state", [S.COPYING, S.ASSIGNMENT_QUEUED, S.SUSPENDED, *OVER])
def test_no_swap_without_the_controllers_word(state: MoveState) -> None:
    with pytest.raises(AssertionError):
        next_step(state, E.SWAPPED)


def test_only_promised_states_have_asked() -> None:
    for (state, event), (after, done) in TRANSITIONS.items():
        assert state.is_promised or event is E.CAUGHT_UP or not after.is_promised
        assert (Do.ASK_BACK in done) == (
            state.is_promised and not after.is_promised and after is not S.SWAPPED
        )

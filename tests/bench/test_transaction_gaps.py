"""Times that producers and readers waited for, by what was done to the cluster."""

from __future__ import annotations

from bench.transactions import Gap, gaps_of

STEPS = [("quiet", 10.0), ("dies", 20.0), ("restarts", 60.0)]


def longest(*times: float, until: float = 80) -> Gap:
    return max(gaps_of("readers", "t-0", times, STEPS, until), key=lambda gap: gap.length_s)


def test_a_gap_belongs_to_what_was_done_when_it_began_to_last() -> None:
    steady = [10 + 0.5 * number for number in range(140)]
    times = [at for at in steady if not 19.9 < at < 26]

    assert longest(*times) == Gap("readers", "t-0", "dies", -0.5, 6.5, "dies")


def test_a_gap_that_ends_with_a_later_step_says_so() -> None:
    times = [*range(11, 22), 62, *range(63, 80)]

    assert longest(*times) == Gap("readers", "t-0", "dies", 1, 41, "restarts")


def test_a_gap_that_lasts_until_the_end_has_not_ended() -> None:
    assert longest(*range(11, 62)) == Gap("readers", "t-0", "restarts", 1, 19, "")


def test_an_end_of_the_run_between_two_events_is_no_gap() -> None:
    times = [10 + 0.5 * number for number in range(140)]

    assert longest(*times, until=79.8).ended_in

"""Sources that noticed a fault, and when."""

from __future__ import annotations

from jbodlab.picture.places import Place
from jbodlab.vocabulary.expressions import MetricName
from lab.rehearsal.facts import Facts, FaultFacts
from lab.rehearsal.metrics import NEVER, Measured
from lab.watch.events import Event
from lab.watch.noticed import ANSWERS, METADATA, METRICS, SILENCE, notices, surest
from lab.watch.server_log import LOG

MS = 1_000_000
DISK, BROKER = Place(1, 2), Place(1)
FAULT = FaultFacts(name="dead", kind="eio", places=(DISK,), injected_ns=100 * MS)


def at(ms: int, source: str, kind: str = "offline", place: Place = DISK, err: int = 0) -> Event:
    return Event(t_ns=ms * MS, source=source, kind=kind, place=place, err_ns=err * MS)


ALL = (
    at(300, "metric", err=50),
    at(200, "broker"),
    at(450, "jmx", err=250),
    at(250, "metadata"),
)


def test_each_source_tells_once_and_the_earliest_comes_first() -> None:
    found = notices((DISK,), 100 * MS, [*ALL, at(900, "broker")])
    assert [(one.by, one.t_ns // MS) for one in found] == [
        (LOG, 200),
        (METADATA, 250),
        (ANSWERS, 300),
        (METRICS, 450),
    ]


def test_what_was_seen_before_the_fault_or_of_other_places_is_no_notice() -> None:
    others = [at(50, "broker"), at(200, "broker", place=Place(2, 2)), at(200, "broker", "online")]
    assert notices((DISK,), 100 * MS, others) == []
    assert len(notices((DISK,), 100 * MS, [at(50, "jmx", err=60)])) == 1


def test_a_node_is_noticed_by_the_controller_else_by_its_silence() -> None:
    events = [at(10, "metric", "silent", BROKER), at(20, "metadata", "fenced", BROKER)]
    found = notices((BROKER,), 0, events)
    for has_metadata, by in ((True, METADATA), (False, SILENCE)):
        notice = surest((BROKER,), found, (LOG,), has_metadata=has_metadata)[BROKER]
        assert notice is not None
        assert notice.by == by


def detected(*events: Event, answers_tell: bool) -> float | None:
    facts = Facts(
        begin_ns=0,
        end_ns=1000 * MS,
        faults={"dead": FAULT},
        events=events,
        answers_tell=answers_tell,
    )
    return Measured(facts)(MetricName("dead", "detected"))


def test_the_log_is_surer_than_the_metrics_and_these_than_answers() -> None:
    assert detected(*ALL, answers_tell=True) == 0.1
    assert detected(ALL[0], ALL[2], answers_tell=True) == 0.35
    assert detected(ALL[0], answers_tell=True) == 0.2


def test_an_answer_that_the_question_itself_made_is_no_detection() -> None:
    assert detected(ALL[0], answers_tell=False) == NEVER
    assert detected(ALL[0], ALL[2], answers_tell=False) == 0.35

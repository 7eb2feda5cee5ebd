"""`jbodlab run` ends with what happened first, whatever cannot be tidied up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fault_injection.errors import FaultError
from lab import traffic
from lab.commands import breaking, running
from lab.errors import LabError
from lab.interrupts import Interrupts

CLUSTER: Any = SimpleNamespace(bootstrap="h:1", brokers=[1, 2, 3])


@pytest.fixture(autouse=True)
def topics_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise LabError("topic x could not be deleted: no answer")

    monkeypatch.setattr(traffic, "create_topic", lambda *_, **__: None)
    monkeypatch.setattr(traffic, "delete_topic", refuse)


def test_a_topic_that_stays_does_not_take_the_verdict_away(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with running._topic(CLUSTER, 2, Interrupts()):
        pass

    assert capsys.readouterr().err == "jbodlab: topic x could not be deleted: no answer\n"


@pytest.mark.parametrize("reason", [KeyboardInterrupt(), LabError("the cluster is gone")])
def test_a_topic_that_stays_does_not_hide_why_there_is_an_end(
    capsys: pytest.CaptureFixture[str], reason: BaseException
) -> None:
    with pytest.raises(type(reason)) as caught, running._topic(CLUSTER, 2, Interrupts()):
        raise reason

    assert caught.value is reason
    assert capsys.readouterr().err == "jbodlab: topic x could not be deleted: no answer\n"


def test_a_fault_that_cannot_be_healed_leaves_nothing_else_running(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Standing:
        def heal(self) -> None:
            raise FaultError("no such disk")

    done = []
    work: Any = SimpleNamespace(
        abort=lambda: done.append("aborted"),
        stop=lambda: done.append("stopped"),
        join=lambda _: done.append("joined"),
    )
    faults: Any = [Standing()]

    running._tidy_up(faults, None, work, work)

    assert capsys.readouterr().err == "jbodlab: no such disk\n"
    assert done == ["aborted", "stopped", "joined", "joined"]


@pytest.mark.parametrize("faults", [[], ["a fault"]])
def test_who_is_interrupted_is_told_what_a_fault_left_to_be_done(
    faults: list[Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def afterwards(*_: object, reviving: bool) -> tuple[list[str], list[str]]:
        assert not reviving
        return ["broker-1/1 is still offline: jbodlab heal --revive"], []

    monkeypatch.setattr(breaking, "afterwards", afterwards)

    with (
        pytest.raises(KeyboardInterrupt),
        running._remaining_told("default", CLUSTER, faults),
    ):
        raise KeyboardInterrupt

    line = "jbodlab: broker-1/1 is still offline: jbodlab heal --revive\n"
    assert capsys.readouterr().err == (line if faults else "")

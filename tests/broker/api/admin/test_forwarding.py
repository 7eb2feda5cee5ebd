"""Which requests are sent to the controller again, when the answer was lost."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from broker.api.admin.forwarding import Deadline
from jbodlab.controller_api import requests as r
from jbodlab.vocabulary.errors import ControllerUnavailableError

SECOND = datetime.timedelta(seconds=1)
CREATE = r.CreateTopicsRequest(topics=(), timeout_ms=1_000)
AGAIN = r.CreateTopicsRequest(topics=(), timeout_ms=1_001)


class Controller:
    """Fails as often as the test says, and answers from then on."""

    def __init__(self, *, is_outcome_unknown: bool, failures: int = 1) -> None:
        self._is_outcome_unknown = is_outcome_unknown
        self._failures = failures
        self.calls: list[Any] = []

    async def call(self, request: Any, timeout_s: float) -> str:
        self.calls.append(request)
        if len(self.calls) <= self._failures:
            raise ControllerUnavailableError("gone", is_outcome_unknown=self._is_outcome_unknown)
        return "answer"


async def test_a_request_that_may_have_been_carried_out_is_sent_again_as_such() -> None:
    controller: Any = Controller(is_outcome_unknown=True)
    assert await Deadline(SECOND).call(controller, CREATE, lambda: AGAIN) == "answer"
    assert controller.calls == [CREATE, AGAIN]


async def test_a_request_that_was_not_carried_out_is_sent_as_it_was() -> None:
    controller: Any = Controller(is_outcome_unknown=False)
    assert await Deadline(SECOND).call(controller, CREATE, lambda: AGAIN) == "answer"
    assert controller.calls == [CREATE, CREATE]


async def test_a_request_is_not_sent_when_its_time_is_over() -> None:
    controller: Any = Controller(is_outcome_unknown=True, failures=1_000)
    with pytest.raises(ControllerUnavailableError):
        await Deadline(SECOND / 10).call(controller, CREATE, lambda: AGAIN)

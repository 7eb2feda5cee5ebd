"""Which requests are sent to the controller again, when the answer was lost."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from broker.api.admin.forwarding import Deadline
from jbodlab.controller_api import requests as r
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import ControllerUnavailableError, KafkaError

SECOND = datetime.timedelta(seconds=1)
CREATE = r.CreateTopicsRequest(topics=(), timeout_ms=1_000)
ELECT = r.ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=1_000)


def alter(operation: int) -> r.IncrementalAlterConfigsRequest:
    change = r.ConfigChange(name="n", config_operation=operation, value="v")
    resource = r.ConfigResource(resource_type=2, resource_name="t", configs=(change,))
    return r.IncrementalAlterConfigsRequest(resources=(resource,))


class Controller:
    """Fails once, and answers from then on."""

    def __init__(self, *, is_outcome_unknown: bool) -> None:
        self.failure: Exception | None = ControllerUnavailableError(
            "gone", is_outcome_unknown=is_outcome_unknown
        )
        self.calls = 0

    async def call(self, request: Any, timeout_s: float) -> str:
        self.calls += 1
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        return "answer"


@pytest.mark.parametrize("request_", [ELECT, alter(0), alter(1)])
async def test_a_request_that_may_have_been_carried_out_is_repeated_if_nothing_more_changes(
    request_: Any,
) -> None:
    controller: Any = Controller(is_outcome_unknown=True)
    assert await Deadline(SECOND).call(controller, request_) == "answer"
    assert controller.calls == 2


@pytest.mark.parametrize("request_", [CREATE, alter(2), alter(3)])
async def test_a_request_that_may_have_been_carried_out_is_not_repeated_if_it_counts_twice(
    request_: Any,
) -> None:
    controller: Any = Controller(is_outcome_unknown=True)
    with pytest.raises(KafkaError) as failed:
        await Deadline(SECOND).call(controller, request_)
    assert failed.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert controller.calls == 1


async def test_a_request_that_was_not_carried_out_is_repeated_whatever_it_is() -> None:
    controller: Any = Controller(is_outcome_unknown=False)
    assert await Deadline(SECOND).call(controller, CREATE) == "answer"
    assert controller.calls == 2

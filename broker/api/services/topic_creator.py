"""Creates topics that clients ask for and that do not exist.

These are topics of `auto.create.topics.enable`, and internal topics, which are created when the
first client needs a coordinator.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from broker.bounds.limits import CREATE_TIMEOUT_S, CREATION_FAILURES_MAX, CREATIONS_MAX
from broker.controller_link.channel import ControllerChannel
from jbodlab.controller_api.requests import Caller, CreateTopicsRequest, Mutator, NewTopic
from jbodlab.runtime.supervised import end_tasks, supervised
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import ControllerUnavailableError, KafkaError
from jbodlab.vocabulary.ids import INTERNAL_TOPICS, METADATA_TOPIC

logger = logging.getLogger(__name__)

TOPIC_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
"""Valid names of a topic."""


class Wish(NamedTuple):
    """A topic to be created, and for whom; None where everybody may do everything."""

    name: str
    caller: Caller | None


class TopicCreator:
    """Asks the controller in the background; clients meanwhile ask again.

    Args:
        controller: Channel to the controller, which creates topics.
        internal_topic: How one of the brokers' own is to be; None for one that is not used.
        broker: For whom those are created.
    """

    def __init__(
        self,
        controller: ControllerChannel,
        internal_topic: Callable[[str], NewTopic | None],
        broker: Caller | None,
    ) -> None:
        self._broker = broker
        self._controller = controller
        self._internal_topic = internal_topic
        self._in_progress: dict[Wish, asyncio.Task[None]] = {}
        self._failures: dict[Wish, KafkaError] = {}
        """Why the last attempt failed, until a client has been told."""

    def create(
        self, name: str, client_id: str | None = None, caller: Caller | None = None
    ) -> KafkaError:
        """Start to create a topic; one of clients gets the cluster's defaults.

        Args:
            name: The topic's.
            client_id: Client whose `controller_mutation_rate` is charged for one of clients.
            caller: By whose rights one of clients is created; nobody else hears why it is not.

        Returns:
            The answer for the topic now: UNKNOWN_TOPIC_OR_PARTITION while it is being created,
            the controller's refusal once after it failed, an error at once for an impossible name.
        """
        if TOPIC_NAME.fullmatch(name) is None or name == METADATA_TOPIC:
            return KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        wish = Wish(name, self._broker if name in INTERNAL_TOPICS else caller)
        if wish in self._failures:
            return self._failures.pop(wish)
        if wish not in self._in_progress and len(self._in_progress) < CREATIONS_MAX:
            topic = self._internal_topic(name) if name in INTERNAL_TOPICS else NewTopic(name=name)
            if topic is not None:
                self._in_progress[wish] = supervised(
                    partial(self._create, topic, wish, _payer(name, client_id)),
                    name=f"create topic {name}",
                    # The next request for it tries again.
                    on_end=lambda _line: None,
                )
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    async def close(self) -> None:
        """Give up what is still in progress."""
        await end_tasks(self._in_progress.values())

    async def _create(self, topic: NewTopic, wish: Wish, payer: Mutator | None) -> None:
        name = topic.name
        request = CreateTopicsRequest(
            topics=(topic,),
            timeout_ms=int(CREATE_TIMEOUT_S * 1000),
            mutator=payer,
            caller=wish.caller,
        )
        try:
            response = await self._controller.call(request, CREATE_TIMEOUT_S)
        except ControllerUnavailableError as error:
            logger.warning(
                "cannot create a topic that a client asked for: %s", error, extra={"topic": name}
            )
        else:
            for created in response.topics:
                self._created(wish, KafkaError(created.error_code, created.error_message))
        finally:
            del self._in_progress[wish]

    def _created(self, wish: Wish, error: KafkaError) -> None:
        name = wish.name
        if error.code == ErrorCode.NONE:
            logger.info("created a topic that a client asked for", extra={"topic": name})
        elif error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            logger.warning(
                "cannot create a topic that a client asked for: %s",
                error.message,
                extra={"topic": name},
            )
            # A client that has used up its quota asks again, and is served when its time has come.
            is_final = error.code != ErrorCode.THROTTLING_QUOTA_EXCEEDED
            if is_final and len(self._failures) < CREATION_FAILURES_MAX:
                self._failures[wish] = error


def _payer(name: str, client_id: str | None) -> Mutator | None:
    if name in INTERNAL_TOPICS:
        return None
    return Mutator(client_id=client_id or "", is_strict=True)

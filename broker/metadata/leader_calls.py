"""Puts questions to the node that leads now, and again until they are answered.

The leader is a function of the metadata. A question is put again after an answer that is not the
last, after a pause that grows with the time it has waited, and at once when the metadata change. As
long as a leader owes an answer it is not asked again; if another one leads meanwhile, that one is
asked at once. Questions that fall due in one turn of the event loop travel together, in one request
for each lane.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Coroutine, Hashable, Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from broker.metadata.metadata_cache import MetadataCache
from jbodlab.runtime.supervised import call_each, end_tasks
from jbodlab.vocabulary.errors import DecodeError

logger = logging.getLogger(__name__)

PAUSE_S, PAUSE_S_MAX = 0.02, 0.5
"""Shortest and longest pause before a question is put again."""

QuestionT = TypeVar("QuestionT")
AnswerT = TypeVar("AnswerT")
LaneT = TypeVar("LaneT", bound=Hashable)


def pause_s(waited_s: float) -> float:
    """Return the pause before a question is put again that has waited for so long."""
    return min(max(PAUSE_S, waited_s / 4), PAUSE_S_MAX)


class LeadingNode(NamedTuple, Generic[LaneT]):
    """The node that a question is sent to.

    Attributes:
        lane: Questions of one lane travel together.
        term: Another one where another leads.
    """

    lane: LaneT
    term: int


class Settled(msgspec.Struct, Generic[AnswerT], frozen=True):
    """The answer to a question that nobody needs to be asked."""

    answer: AnswerT


class LeaderCall(msgspec.Struct, Generic[QuestionT, AnswerT], eq=False, kw_only=True):
    """A question without its answer."""

    question: QuestionT
    answered: Callable[[AnswerT], None]
    since_s: float
    ends_s: float
    leader: LeadingNode[Any] | None = None
    """The leader that owes an answer to its last request."""
    request: object = None
    is_again: bool = False
    pause: asyncio.TimerHandle | None = None

    def rest(self) -> None:
        """Wait neither for an answer nor for the end of a pause."""
        self.leader = self.request = None
        if self.pause is not None:
            self.pause.cancel()
            self.pause = None


class LeaderCalls(Generic[LaneT, QuestionT, AnswerT]):
    """The questions of one kind; on the event loop.

    Args:
        cache: The metadata.
        leader: Returns the node to ask now; None while there is no leader.
        send: Asks; the answers are in the order of the questions.
        is_final: Whether an answer is the last.
        lost: The answer where none came; it is not final.
        again: Called before a question is put again, which needs no asking any more if it returns
            an answer.
        at_once: Most questions of a request.
        requests_max: Most requests of a lane under way; the next one waits for an answer, and has
            all that has come meanwhile.
    """

    def __init__(
        self,
        cache: MetadataCache,
        leader: Callable[[QuestionT], LeadingNode[LaneT] | Settled[AnswerT] | None],
        send: Callable[[LaneT, Sequence[QuestionT]], Coroutine[Any, Any, Iterable[AnswerT]]],
        is_final: Callable[[QuestionT, AnswerT], bool],
        lost: AnswerT,
        *,
        again: Callable[[QuestionT], Settled[AnswerT] | None] = lambda _: None,
        at_once: float = math.inf,
        requests_max: float = math.inf,
    ) -> None:
        self._leader = leader
        self._send = send
        self._is_final = is_final
        self._lost = lost
        self._again = again
        self._at_once = at_once
        self._requests_max = requests_max
        # Not sets: whose turn comes first must not depend on where they lie in memory.
        self._open: dict[LeaderCall[QuestionT, AnswerT], None] = {}
        self._due: dict[LeaderCall[QuestionT, AnswerT], None] = {}
        self._tasks: dict[asyncio.Task[Iterable[AnswerT]], None] = {}
        self._under_way: Counter[LaneT] = Counter()
        self._look: asyncio.Handle | None = None
        cache.listeners.append(self._metadata_changed)

    def ask(
        self,
        question: QuestionT,
        answered: Callable[[AnswerT], None],
        within_s: float = math.inf,
    ) -> LeaderCall[QuestionT, AnswerT]:
        """Put a question.

        Args:
            question: The question.
            answered: Called once, with the last answer, or with one that is not after that time.
            within_s: How long it is put again.
        """
        now_s = asyncio.get_running_loop().time()
        call = LeaderCall(
            question=question, answered=answered, since_s=now_s, ends_s=now_s + within_s
        )
        self._open[call] = None
        self._fall_due(call)
        return call

    async def answer(self, question: QuestionT, within_s: float) -> AnswerT:
        """Put a question, and return its answer; see `ask`."""
        future: asyncio.Future[AnswerT] = asyncio.get_running_loop().create_future()

        def answered(answer: AnswerT) -> None:
            if not future.done():
                future.set_result(answer)

        call = self.ask(question, answered, within_s)
        try:
            return await future
        finally:
            self.drop(call)

    def drop(self, call: LeaderCall[QuestionT, AnswerT]) -> None:
        """Forget a question; what is under way is not answered."""
        self._open.pop(call, None)
        self._due.pop(call, None)
        call.rest()

    async def close(self) -> None:
        """Answer what is open with `lost`."""
        for call in [*self._open]:
            self._settle(call, self._lost)
        if self._look is not None:
            self._look.cancel()
        await end_tasks(self._tasks)

    def _metadata_changed(self) -> None:
        for call in self._open:
            if call.leader is not None:
                leader = self._leader(call.question)
                if leader is None or (
                    isinstance(leader, LeadingNode) and leader.term == call.leader.term
                ):
                    continue
            call.rest()
            self._fall_due(call)

    def _fall_due(self, call: LeaderCall[QuestionT, AnswerT]) -> None:
        self._due[call] = None
        self._look_soon()

    def _look_soon(self) -> None:
        if self._look is None:
            self._look = asyncio.get_running_loop().call_soon(self._send_due)

    def _send_due(self) -> None:
        self._look = None
        requests: dict[LaneT, list[LeaderCall[QuestionT, AnswerT]]] = {}
        for call in [*self._due]:
            if call not in self._due:
                continue
            found = self._again(call.question) if call.is_again else None
            leader = found or self._leader(call.question)
            call.is_again = True
            if leader is None:
                del self._due[call]
                self._later(call, self._lost)
            elif isinstance(leader, Settled):
                self._settle(call, leader.answer)
            else:
                request = requests.setdefault(leader.lane, [])
                is_busy = self._under_way[leader.lane] >= self._requests_max
                if is_busy or len(request) >= self._at_once:
                    # When a request has been answered.
                    continue
                del self._due[call]
                call.leader, call.request = leader, request
                request.append(call)
        for lane, request in requests.items():
            if request:
                self._under_way[lane] += 1
                work = self._send(lane, [call.question for call in request])
                task = asyncio.get_running_loop().create_task(work, name="ask leader")
                self._tasks[task] = None
                task.add_done_callback(partial(self._ended, lane, request))

    def _ended(
        self,
        lane: LaneT,
        request: Sequence[LeaderCall[QuestionT, AnswerT]],
        task: asyncio.Task[Iterable[AnswerT]],
    ) -> None:
        del self._tasks[task]
        self._under_way[lane] -= 1
        if not self._under_way[lane]:
            del self._under_way[lane]
        answers: Iterable[AnswerT] = repeat(self._lost)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, OSError | DecodeError):
            logger.info("%s does not answer: %s", lane, error)
        elif error is not None:
            logger.error("asking %s failed", lane, exc_info=error)
        elif not task.cancelled():
            answers = task.result()
        for call, answer in zip(request, answers, strict=False):
            if call not in self._open:
                continue
            if self._is_final(call.question, answer):
                self._settle(call, answer)
            elif call.request is request:
                call.rest()
                self._later(call, answer)
        if self._due:
            self._look_soon()

    def _later(self, call: LeaderCall[QuestionT, AnswerT], answer: AnswerT) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        if now_s >= call.ends_s:
            self._settle(call, answer)
            return
        seconds = min(pause_s(now_s - call.since_s), call.ends_s - now_s)
        call.pause = loop.call_later(seconds, partial(self._fall_due, call))

    def _settle(self, call: LeaderCall[QuestionT, AnswerT], answer: AnswerT) -> None:
        self.drop(call)
        call_each([partial(call.answered, answer)], "the answer of a leader")

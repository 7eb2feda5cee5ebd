"""The first batch of a transaction in a partition waits for its coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from broker.metadata import leader_calls
from broker.metadata.metadata_cache import MetadataCache
from broker.produce.leader_appends import append_marker, append_own
from broker.produce.transaction_admission import Part, PartQuestion, coordinator_calls
from broker.replica.waiting.append_entries import AppendResult, BatchTransaction
from jbodlab.record_batch.record_batch import TRANSACTIONAL
from jbodlab.storage.log.transactions import ABORT, COMMIT, Marker
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import BrokerId
from jbodlab.vocabulary.producer import Producer
from tests.broker.replicas import TP, batch, change, until
from tests.broker.stage import Stage, code
from tests.waiting import turns

P = 7
OLD = BatchTransaction(transactional_id="t")
KNOWS = BatchTransaction(transactional_id="t", knows_abortable=True)
NEW = BatchTransaction(transactional_id="t", knows_abortable=True, adds_partitions=True)

OK = ErrorCode.NONE
ABORTABLE, CONCURRENT = ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.CONCURRENT_TRANSACTIONS
NOT_THERE = ErrorCode.NOT_ENOUGH_REPLICAS


class Coordinators:
    """Answer when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[Part, asyncio.Future[ErrorCode]]] = []
        self.cache = MetadataCache(BrokerId(1), "PLAINTEXT")
        self.calls = coordinator_calls(
            self.cache, lambda _: leader_calls.LeadingNode(0, 0), self._send
        )

    async def _send(self, _: int, questions: Sequence[PartQuestion]) -> list[ErrorCode]:
        futures = [asyncio.get_running_loop().create_future() for _ in questions]
        self.asked += zip((each.part for each in questions), futures, strict=True)
        return [await each for each in futures]

    async def say(self, code: ErrorCode = OK) -> None:
        """Answer what was asked last."""
        await turns()
        self.asked[-1][1].set_result(code)
        await turns()


class Leader(Stage):
    """A partition that broker 1 leads alone."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.coordinators = Coordinators()
        self.host.manager.appends.admission.coordinators = self.coordinators.calls

    def send(
        self,
        sequence: int = 0,
        *,
        epoch: int = 0,
        producer_id: int = P,
        transaction: BatchTransaction | None = NEW,
        timeout_ms: int = 30_000,
    ) -> asyncio.Future[list[AppendResult]]:
        records = batch(
            producer_id=producer_id, epoch=epoch, sequence=sequence, attributes=TRANSACTIONAL
        )
        return self.host.produce(records, transaction=transaction, timeout_ms=timeout_ms)

    def marker(
        self, epoch: int = 1, kind: int = COMMIT, *, coordinator_epoch: int = 0, bumps: bool = True
    ) -> tuple[int, bool]:
        return append_marker(
            self.partition,
            Producer(P, epoch),
            Marker(kind, coordinator_epoch),
            bumps_epoch=bumps,
            now_ms=1,
        )


@pytest.fixture
async def leader(tmp_path: Path) -> AsyncIterator[Leader]:
    async with Leader(tmp_path) as leader:
        await leader.begin()
        yield leader


@pytest.mark.parametrize("transaction", [OLD, KNOWS, NEW], ids=["old", "knows", "new"])
@pytest.mark.parametrize("kind", [ABORT, COMMIT])
async def test_a_transaction_of_an_earlier_epoch_is_aborted_when_the_next_one_begins(
    leader: Leader, caplog: pytest.LogCaptureFixture, transaction: BatchTransaction, kind: int
) -> None:
    first = leader.send(0, epoch=3, transaction=transaction)
    await leader.coordinators.say()
    assert await code(first) is OK
    # An unclean election has lost the marker.
    next_ones = [leader.send(each, epoch=4, transaction=transaction) for each in range(2)]
    await turns()
    assert leader.end == 1
    with caplog.at_level("WARNING"):
        await leader.coordinators.say()

    assert [await code(each) for each in next_ones] == [OK, OK]
    assert leader.end == 4
    (said,) = (each.message for each in caplog.records if "its marker was lost" in each.message)
    assert f"producer {P} in {TP}" in said
    assert "open from offset 0 in epoch 3" in said
    log = leader.log
    assert await log.aborted_between(0, 4) == [(P, 0)]
    assert log.producers.open_since(P, 4) == 2

    leader.marker(4 if transaction is OLD else 5, kind, bumps=transaction is NEW)
    expected = [(P, 0), (P, 2)] if kind == ABORT else [(P, 0)]
    assert await log.aborted_between(0, leader.end) == expected


async def test_a_transaction_of_an_earlier_epoch_stays_open_until_the_coordinator_has_answered(
    leader: Leader,
) -> None:
    first = leader.send(0, epoch=3)
    await leader.coordinators.say()
    assert await code(first) is OK
    refused = leader.send(0, epoch=4)
    await turns()
    await leader.coordinators.say(ErrorCode.INVALID_TXN_STATE)

    assert await code(refused) is ErrorCode.INVALID_TXN_STATE
    assert leader.end == 1


async def test_the_first_batch_waits_for_the_coordinator_and_the_next_ones_do_not_ask(
    leader: Leader,
) -> None:
    first = leader.send(0)
    await turns()
    assert leader.end == 0
    ((part, _),) = leader.coordinators.asked
    assert part == Part(TP, P, 0, NEW)

    await leader.coordinators.say()

    assert await code(first) is OK
    assert await code(leader.send(1)) is OK
    assert len(leader.coordinators.asked) == 1
    assert leader.log.producers.open_since(P, 0) == 0


async def test_batches_behind_the_first_one_wait_with_it_in_their_order(leader: Leader) -> None:
    sent = [leader.send(number) for number in range(3)]
    await turns()
    assert len(leader.coordinators.asked) == 1

    await leader.coordinators.say()

    results = [(await each)[0] for each in sent]
    assert [(each.error_code, each.base_offset) for each in results] == [(OK, 0), (OK, 1), (OK, 2)]


async def test_batches_of_other_producers_do_not_wait(leader: Leader) -> None:
    leader.send(0)

    assert (await leader.host.produced(batch(producer_id=8, sequence=0))).base_offset == 0
    assert (await leader.host.produced(batch())).base_offset == 1


@pytest.mark.parametrize(
    ("said", "old", "knows", "new"),
    [
        (ABORTABLE, ErrorCode.INVALID_TXN_STATE, ABORTABLE, ABORTABLE),
        (
            ErrorCode.PRODUCER_FENCED,
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.INVALID_PRODUCER_EPOCH,
        ),
        (
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.INVALID_PRODUCER_EPOCH,
        ),
        *((each, each, each, each) for each in (ErrorCode.INVALID_PRODUCER_ID_MAPPING,)),
        (CONCURRENT, NOT_THERE, NOT_THERE, CONCURRENT),
        *(
            (each, NOT_THERE, NOT_THERE, NOT_THERE)
            for each in (
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.NETWORK_EXCEPTION,
            )
        ),
    ],
)
async def test_what_a_producer_is_told_of_the_coordinators_answer(
    leader: Leader,
    said: ErrorCode,
    old: ErrorCode,
    knows: ErrorCode,
    new: ErrorCode,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("broker.produce.transaction_admission.ADMISSION_RETRY_MAX_S", 0)
    for transaction, expected in ((OLD, old), (KNOWS, knows), (NEW, new)):
        sent = leader.send(0, transaction=transaction)
        await turns()
        await leader.coordinators.say(said)
        assert await code(sent) is expected
    assert leader.end == 0
    assert len(leader.leading.guards) == 0


@pytest.mark.parametrize(
    ("said", "transaction"),
    [
        (CONCURRENT, NEW),
        *((ErrorCode.NOT_COORDINATOR, transaction) for transaction in (OLD, NEW)),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, NEW),
    ],
)
async def test_a_coordinator_that_may_soon_answer_otherwise_is_asked_again(
    leader: Leader, said: ErrorCode, transaction: BatchTransaction
) -> None:
    sent = leader.send(0, transaction=transaction)
    await turns()
    await leader.coordinators.say(said)
    assert not sent.done()
    await until(lambda: len(leader.coordinators.asked) == 2)

    await leader.coordinators.say()

    assert await code(sent) is OK


async def test_the_marker_of_the_last_transaction_may_come_while_the_next_one_is_asked_about(
    leader: Leader,
) -> None:
    leader.send(0)
    await turns()
    await leader.coordinators.say()
    sent = leader.send(0, epoch=1)
    await turns()
    leader.marker(1)
    await leader.coordinators.say(CONCURRENT)
    await until(lambda: len(leader.coordinators.asked) == 3)

    await leader.coordinators.say()

    assert await code(sent) is OK


async def test_a_batch_that_a_marker_overtakes_is_not_asked_about_again_with_the_same_epoch(
    leader: Leader,
) -> None:
    sent = leader.send(0, transaction=OLD)
    await turns()
    await leader.coordinators.say(ErrorCode.NOT_COORDINATOR)
    leader.marker(0, bumps=False)

    assert await code(sent) is NOT_THERE
    assert len(leader.coordinators.asked) == 1


async def test_who_completes_for_too_long_is_waited_for_by_the_producer(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.produce.transaction_admission.ADMISSION_RETRY_MAX_S", 0.1)
    sent = leader.send(0)
    asked = 0

    async def answer() -> None:
        nonlocal asked
        while not sent.done():
            if len(leader.coordinators.asked) > asked:
                asked = len(leader.coordinators.asked)
                await leader.coordinators.say(CONCURRENT)
            await asyncio.sleep(0.001)

    await asyncio.wait_for(answer(), 10)
    assert await code(sent) is CONCURRENT
    assert asked > 1


@pytest.mark.parametrize(
    ("transaction", "expected"),
    [(OLD, ErrorCode.INVALID_TXN_STATE), (KNOWS, ABORTABLE), (NEW, ABORTABLE)],
)
async def test_txn_late_produce_that_was_overtaken_by_a_marker_opens_no_transaction(
    leader: Leader, transaction: BatchTransaction, expected: ErrorCode
) -> None:
    late = leader.send(0, transaction=transaction)
    await turns()
    leader.marker(0, ABORT, bumps=False)

    await leader.coordinators.say()

    assert await code(late) is expected
    assert leader.log.producers.first_open_offset is None


async def test_a_batch_after_the_end_of_its_transaction_is_asked_about_anew(leader: Leader) -> None:
    first = leader.send(0, transaction=OLD)
    await turns()
    await leader.coordinators.say()
    assert await code(first) is OK
    leader.marker(0, bumps=False)

    late = leader.send(1, transaction=OLD)
    await turns()
    assert len(leader.coordinators.asked) == 2
    await leader.coordinators.say(ABORTABLE)

    assert await code(late) is ErrorCode.INVALID_TXN_STATE


async def test_a_batch_of_an_old_epoch_is_refused_before_anybody_is_asked(leader: Leader) -> None:
    leader.marker(3)

    assert await code(leader.send(0, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH

    assert not leader.coordinators.asked


async def test_a_batch_that_is_asked_about_fences_those_of_older_epochs(leader: Leader) -> None:
    leader.send(0, epoch=2)

    assert await code(leader.send(0, epoch=1)) is ErrorCode.INVALID_PRODUCER_EPOCH


async def test_a_repeated_batch_of_an_ended_transaction_gets_its_old_answer(leader: Leader) -> None:
    first = leader.send(0, transaction=OLD)
    await turns()
    await leader.coordinators.say()
    await first
    leader.marker(0, bumps=False)

    (again,) = await leader.send(0, transaction=OLD)

    assert (again.error_code, again.base_offset) == (OK, 0)
    assert len(leader.coordinators.asked) == 1


async def test_another_leadership_asks_again(leader: Leader) -> None:
    first = leader.send(0)
    await turns()
    leader.apply(change(leader=1))
    await leader.coordinators.say()
    await turns()

    assert len(leader.coordinators.asked) == 2, "what was said before is forgotten"
    await leader.coordinators.say()
    assert await code(first) is OK


async def test_what_is_open_in_the_log_needs_no_question_of_another_leadership(
    leader: Leader,
) -> None:
    first = leader.send(0)
    await turns()
    await leader.coordinators.say()
    await first
    leader.apply(change(leader=1))

    assert await code(leader.send(1)) is OK
    assert len(leader.coordinators.asked) == 1


async def test_batches_behind_a_refused_one_are_refused_like_it(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.produce.transaction_admission.ADMISSION_RETRY_MAX_S", 0)
    sent = [leader.send(number) for number in range(3)]
    await turns()

    await leader.coordinators.say(ErrorCode.NOT_COORDINATOR)

    assert [await code(each) for each in sent] == [NOT_THERE] * 3
    assert await code(leader.send(3)) is NOT_THERE, "it was under way"
    again = leader.send(0)
    await turns()
    await leader.coordinators.say()
    assert await code(again) is OK


async def test_a_batch_whose_time_is_over_is_passed_over(leader: Leader) -> None:
    sent = leader.send(0, timeout_ms=1)
    assert await code(sent) is ErrorCode.REQUEST_TIMED_OUT

    await leader.coordinators.say()

    assert leader.end == 0


async def test_with_transaction_version_2_an_unknown_producer_begins_at_zero(
    leader: Leader,
) -> None:
    sent = leader.send(4)
    await turns()
    await leader.coordinators.say()

    assert await code(sent) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    sent = leader.send(4, transaction=OLD)
    assert await code(sent) is OK, "its transaction is known to have the partition"


async def test_a_batch_of_a_transaction_without_its_id_is_refused(leader: Leader) -> None:
    assert await code(leader.send(0, transaction=None)) is (
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    )


async def test_a_broker_that_knows_no_coordinator_lets_the_producer_try_again(
    leader: Leader,
) -> None:
    leader.host.manager.appends.admission.coordinators = None

    assert await code(leader.send(0)) is NOT_THERE


async def test_the_brokers_own_batches_need_the_coordinators_word_as_well(leader: Leader) -> None:
    own = batch(producer_id=P, epoch=0, attributes=TRANSACTIONAL)
    with pytest.raises(KafkaError) as caught:
        append_own(leader.partition, own)
    assert caught.value.code is ABORTABLE
    admission = leader.host.manager.appends.admission

    asked = admission.admitted(leader.partition, Part(TP, P, 0, NEW))
    await leader.coordinators.say()
    await asked

    assert append_own(leader.partition, own).base_offset == 0
    await admission.admitted(leader.partition, Part(TP, P, 0, NEW))
    assert len(leader.coordinators.asked) == 1
    leader.marker(1)
    with pytest.raises(KafkaError) as caught:
        append_own(leader.partition, own)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


async def test_the_directory_dies_while_the_coordinator_is_asked(leader: Leader) -> None:
    sent = leader.send(0)
    await turns()
    leader.partition.go_offline("the disk is gone")

    await leader.coordinators.say()

    assert await code(sent) in (
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    )

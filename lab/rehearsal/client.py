"""A client in a process of its own: the unmodified client library, told what to do.

    python -m lab.rehearsal.client < CONFIG.json

    role write                send by a schedule until SIGTERM, then wait for the answers
    role write-transactions   the same in transactions, one after the other
    role read                 consume until SIGTERM
    role drain                read all partitions to their ends, once

A schedule does not wait: the message that was due while the library's queue was full is sent late
and measured from the time at which it was due, so that a client that is held up hides nothing
(coordinated omission). The outcome of each message goes to `output` at once; `status` has the rest.
A message of a transaction is answered when its transaction is: by its commit, or its abort.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import IO, Any

import confluent_kafka
from confluent_kafka import IsolationLevel, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from lab.rehearsal.facts import NOT_ANSWERED, Outcome, Sent, Transaction
from lab.rehearsal.series import RECEIVED, SENT, TRANSACTION

FLUSH_PERIOD_NS = 20_000_000
POLL_MAX_S = 0.02
ANSWER_DEADLINE_S = 60.0
TRANSACTION_ASK_S = 5.0
"""How long one call of the library waits for a coordinator; it is called again."""
DRAIN_PATIENCE_S = 20.0
COMMITTED_PATIENCE_S = 100.0
"""A transaction that is left open holds up readers until its timeout, one minute by default."""
SUBSCRIPTION_POLL_S = 0.1


class Stop:
    """Whether SIGTERM came."""

    def __init__(self) -> None:
        self.is_set = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._set)

    def _set(self, _number: int, _frame: FrameType | None) -> None:
        self.is_set = True


class Output:
    """The series, on its way to the disk every few milliseconds."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._flushed_ns = 0

    def write(self, data: bytes) -> None:
        """Take one record."""
        self._file.write(data)

    def flush_now_and_then(self) -> None:
        """Hand over what was taken, if that is due."""
        if time.monotonic_ns() - self._flushed_ns > FLUSH_PERIOD_NS:
            self.flush()

    def flush(self) -> None:
        """Hand over what was taken."""
        self._file.flush()
        self._flushed_ns = time.monotonic_ns()


def main() -> int:
    """Run one client; returns the exit code."""
    config = json.load(sys.stdin)
    status = Path(config["status"])
    roles: dict[str, Callable[[dict[str, Any], Output, Stop], dict[str, Any]]] = {
        "write": write,
        "write-transactions": write_transactions,
        "read": read,
        "drain": drain,
    }
    with Path(config["output"]).open("wb") as file:
        try:
            found = roles[config["role"]](config, Output(file), Stop())
        except KafkaException as error:
            found = {"failure": str(error.args[0])}
    status.with_suffix(".new").write_text(json.dumps(found), "utf-8")
    status.with_suffix(".new").rename(status)
    return 1 if found.get("failure") else 0


def write(config: dict[str, Any], output: Output, stop: Stop) -> dict[str, Any]:
    """Send by the schedule: message n of key n % keys, each key to one partition.

    At a rate of 0 nothing is ever due.
    """
    producer = confluent_kafka.Producer(config["client"])
    schedule, number = Schedule(config), 0

    def answered(one: Sent, error: KafkaError | None, message: Any = None) -> None:
        code = 0 if error is None else error.code()
        # An acknowledgement has none for acks=0, nor for a batch that the broker got before and no
        # longer remembers.
        known = message.offset() if error is None else None
        offset = -1 if known is None else known
        done_ns = time.monotonic_ns()
        output.write(SENT.pack(*one._replace(done_ns=done_ns, offset=offset, error=code)))

    while not stop.is_set:
        left_s = schedule.left_s(number)
        if left_s > 0:
            producer.poll(min(left_s, POLL_MAX_S))
            output.flush_now_and_then()
            continue
        one = schedule.message(number)
        try:
            schedule.produce(producer, one, partial(answered, one))
        except BufferError:
            producer.poll(POLL_MAX_S)
            continue
        except KafkaException as error:
            # The library refuses it, since the topic was deleted. The others are still due.
            if error.args[0].fatal():
                raise
            answered(one, error.args[0])
        else:
            output.write(SENT.pack(*one))
        number += 1
        producer.poll(0)
        output.flush_now_and_then()
    end_ns = time.monotonic_ns()
    deadline = time.monotonic() + ANSWER_DEADLINE_S
    while producer.flush(POLL_MAX_S * 10) and time.monotonic() < deadline:
        output.flush_now_and_then()
    return {"begin_ns": schedule.begin_ns, "end_ns": end_ns, "sent": number}


def write_transactions(config: dict[str, Any], output: Output, stop: Stop) -> dict[str, Any]:
    """Send by the schedule, in transactions that take messages for so long; then commit."""
    with Path(config["transactions"]).open("wb") as file:
        writer = TransactionalWriter(config, output, Output(file), stop)
        while not stop.is_set:
            writer.write_one()
    now = time.monotonic_ns()
    return {"begin_ns": writer.schedule.begin_ns, "end_ns": now, "sent": writer.number}


class Schedule:
    """Which message is due when; it begins when it is made.

    Message n is of key n % keys, and each key of one partition.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = config
        self.begin_ns = time.monotonic_ns()

    def due_ns(self, number: int) -> int:
        """Return when a message is due; never at a rate of 0."""
        rate = self._config["rate"]
        return self.begin_ns + int(number * 1e9 / rate) if rate else sys.maxsize

    def left_s(self, number: int) -> float:
        """Return in how many seconds a message is due."""
        return (self.due_ns(number) - time.monotonic_ns()) / 1e9

    def message(self, number: int) -> Sent:
        """Return a message that is sent now."""
        key, sequence = number % self._config["keys"], number // self._config["keys"]
        return Sent(
            due_ns=self.due_ns(number),
            sent_ns=time.monotonic_ns(),
            done_ns=NOT_ANSWERED,
            sequence=sequence,
            offset=-1,
            partition=key % self._config["partitions"],
            key=self._config["first_key"] + key,
            error=0,
        )

    def produce(
        self, producer: Any, one: Sent, on_delivery: Callable[..., None] | None = None
    ) -> None:
        """Hand a message to the library; raises as `Producer.produce`."""
        producer.produce(
            self._config["topic"],
            f"{one.sequence} {one.key} ".ljust(self._config["size"], ".").encode(),
            key=str(one.key),
            partition=one.partition,
            on_delivery=on_delivery,
        )


class TransactionalWriter:
    """A producer whose transactions come one after the other.

    After a fatal error it is made anew, as an application would, and its transactional id ends what
    the one before it has left open.
    """

    def __init__(
        self, config: dict[str, Any], output: Output, transactions: Output, stop: Stop
    ) -> None:
        self._config = config
        self._output = output
        self._transactions = transactions
        self._stop = stop
        self._producer = self._new_producer()
        self.schedule = Schedule(config)
        self.number = 0
        """Of the next message."""

    def write_one(self) -> None:
        """Wait for the next message, and send and commit a transaction that begins with it."""
        left_s = self.schedule.left_s(self.number)
        if left_s > 0:
            time.sleep(min(left_s, POLL_MAX_S))
            return
        one = Transaction(
            begun_ns=time.monotonic_ns(),
            asked_ns=NOT_ANSWERED,
            done_ns=NOT_ANSWERED,
            first=self.number,
            messages=0,
            outcome=Outcome.UNKNOWN,
            error=0,
            is_fatal=False,
        )
        error, sent = self._fill(one.begun_ns + int(self._config["commit"] * 1e9))
        one = one._replace(asked_ns=time.monotonic_ns(), messages=len(sent))
        self._note(one)
        one = self._end(one, error)
        for each in sent:
            if one.outcome != Outcome.UNKNOWN:
                self._output.write(SENT.pack(*each._replace(done_ns=one.done_ns, error=one.error)))
        self._note(one)
        if one.is_fatal:
            self._producer = self._new_producer()

    def _fill(self, until_ns: int) -> tuple[KafkaError | None, list[Sent]]:
        """Send what is due until a moment; return why the transaction cannot go on, and that."""
        sent: list[Sent] = []
        try:
            self._producer.begin_transaction()
            while time.monotonic_ns() < until_ns and not self._stop.is_set:
                left_s = self.schedule.left_s(self.number)
                if left_s > 0:
                    self._producer.poll(min(left_s, POLL_MAX_S))
                    continue
                one = self.schedule.message(self.number)
                self._output.write(SENT.pack(*one))
                # Also if the library refuses it: the transaction is then aborted with it.
                sent.append(one)
                self.number += 1
                self._hand_over(one)
                self._output.flush_now_and_then()
        except KafkaException as error:
            return error.args[0], sent
        return None, sent

    def _hand_over(self, one: Sent) -> None:
        while True:
            try:
                self.schedule.produce(self._producer, one)
            except BufferError:
                self._producer.poll(POLL_MAX_S)
            else:
                return

    def _end(self, one: Transaction, error: KafkaError | None) -> Transaction:
        """Commit a transaction, or abort it if it has an error; return it with its answer."""
        is_asked = error is None
        error = error or self._ask(self._producer.commit_transaction)
        outcome = Outcome.COMMITTED
        if error is not None and error.fatal():
            # A message whose commit had not been asked for cannot be committed now.
            outcome = Outcome.UNKNOWN if is_asked else Outcome.ABORTED
            one = one._replace(is_fatal=True)
        elif error is not None and is_asked and error.retriable():
            return one._replace(error=error.code())
        elif error is not None:
            refused = self._ask(self._producer.abort_transaction)
            outcome = Outcome.UNKNOWN if refused else Outcome.ABORTED
            one = one._replace(is_fatal=refused is not None and not refused.retriable())
        code = 0 if error is None else error.code()
        return one._replace(done_ns=time.monotonic_ns(), outcome=outcome, error=code)

    def _ask(self, call: Callable[[float], None]) -> KafkaError | None:
        """Call until there is an answer; return the error, a retriable one if there is none."""
        deadline: float | None = None
        while True:
            try:
                call(TRANSACTION_ASK_S)
            except KafkaException as error:
                failure: KafkaError = error.args[0]
            else:
                return None
            if not failure.retriable():
                return failure
            if self._stop.is_set:
                deadline = deadline or time.monotonic() + ANSWER_DEADLINE_S
                if time.monotonic() > deadline:
                    return failure

    def _new_producer(self) -> Any:
        while True:
            producer = confluent_kafka.Producer(self._config["client"])
            error = self._ask(producer.init_transactions)
            if error is None or self._stop.is_set:
                return producer
            # The obstacle to its beginning may pass, as a coordinator without a leader does.
            time.sleep(POLL_MAX_S)

    def _note(self, one: Transaction) -> None:
        self._transactions.write(TRANSACTION.pack(*one))
        self._transactions.flush()
        self._output.flush()


def read(config: dict[str, Any], output: Output, stop: Stop) -> dict[str, Any]:
    """Consume until told to stop: by partitions, or as member of a group."""
    consumer = confluent_kafka.Consumer(config["client"])
    assigned_ns: list[int] = []
    if config["group"]:
        consumer.subscribe(
            [config["topic"]],
            on_assign=lambda _client, _partitions: assigned_ns.append(time.monotonic_ns()),
        )
    else:
        consumer.assign(_beginnings(config["topic"], config["partitions"]))
    errors: list[str] = []
    while not stop.is_set:
        for message in consumer.consume(500, timeout=SUBSCRIPTION_POLL_S):
            error = message.error()
            if error is not None:
                errors.append(error.name())
                if error.fatal() or error.code() == KafkaError.UNSUPPORTED_VERSION:
                    return {"failure": error.str(), "errors": errors}
            else:
                _take(message, output)
        output.flush_now_and_then()
    consumer.close()
    return {"errors": errors, "assigned_ns": assigned_ns}


def drain(config: dict[str, Any], output: Output, stop: Stop) -> dict[str, Any]:
    """Read every partition from its beginning to its end, or until nothing comes any more.

    The end of committed records is not that of the partition while a transaction is open: those
    that stand before it are `stuck` at the end.
    """
    consumer = confluent_kafka.Consumer({**config["client"], "enable.partition.eof": True})
    consumer.assign(_beginnings(config["topic"], config["partitions"]))
    is_committed = config["client"]["isolation.level"] == "read_committed"
    ends = _ends(config) if is_committed else {}
    patience_s = COMMITTED_PATIENCE_S if is_committed else DRAIN_PATIENCE_S
    left, stands = set(range(config["partitions"])), set()
    last = time.monotonic()
    while left and not stop.is_set:
        for message in consumer.consume(1000, timeout=SUBSCRIPTION_POLL_S):
            error = message.error()
            if error is None:
                _take(message, output)
                last = time.monotonic()
            elif error.code() == KafkaError._PARTITION_EOF:
                last = time.monotonic()
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                if offset < ends.get(partition, 0):
                    stands.add(partition)
                else:
                    left.discard(partition)
        if time.monotonic() - last > patience_s:
            break
    consumer.close()
    return {"unread": sorted(left), "stuck": sorted(left & stands)}


def _ends(config: dict[str, Any]) -> dict[int, int]:
    """Return the high watermarks; empty if nobody tells them, so that nothing is read."""
    client = config["client"]
    # Of a consumer's settings only how the cluster is reached.
    words = ("bootstrap.servers", "security.protocol", "ssl.", "sasl.")
    admin = AdminClient({key: client[key] for key in client if any(word in key for word in words)})
    end = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    wanted = {
        confluent_kafka.TopicPartition(config["topic"], each): end
        for each in range(config["partitions"])
    }
    asked = admin.list_offsets(
        wanted,
        isolation_level=IsolationLevel.READ_UNCOMMITTED,
        request_timeout=DRAIN_PATIENCE_S,
    )
    found = {}
    for partition, future in asked.items():
        # One without an answer has no leader, and cannot be read either.
        with contextlib.suppress(KafkaException):
            found[partition.partition] = future.result().offset
    return found


def _beginnings(topic: str, partitions: int) -> list[confluent_kafka.TopicPartition]:
    beginning = confluent_kafka.OFFSET_BEGINNING
    return [confluent_kafka.TopicPartition(topic, each, beginning) for each in range(partitions)]


def _take(message: Any, output: Output) -> None:
    # Others may write to the topic as well; what is not of our producers is left out.
    with contextlib.suppress(ValueError, TypeError, AttributeError):
        sequence = int(message.value().split(b" ", 1)[0])
        key = int(message.key())
        output.write(
            RECEIVED.pack(time.monotonic_ns(), sequence, message.offset(), message.partition(), key)
        )


if __name__ == "__main__":
    sys.exit(main())

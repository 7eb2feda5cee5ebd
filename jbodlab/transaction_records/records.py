"""One record of `__transaction_state`: key and value as bytes and as values.

Key: int16 record type, fields. Value: int16 version, fields; null is a tombstone. Fields and their
names are those of Kafka's schemas `TransactionLogKey` and `TransactionLogValue`. Times are
milliseconds since 1970.

Source: `org.apache.kafka.coordinator.transaction.TransactionLog`.
"""

from typing import ClassVar, NamedTuple

from jbodlab.kafka_wire.kinds import Int8, Int16, Int32, Int64
from jbodlab.kafka_wire.numbered import decode_numbered, encode_numbered, number_of
from jbodlab.kafka_wire.schema import NEVER_FLEXIBLE, Struct, field
from jbodlab.vocabulary.errors import DecodeError, UnknownRecordTypeError


class TransactionLogKey(Struct, first_flexible_version=NEVER_FLEXIBLE):
    """Names a transactional id."""

    RECORD_TYPE: ClassVar[int] = 0

    transactional_id: str = field("id that the application gave to the producer")


class TransactionPartitions(Struct, first_flexible_version=1):
    """Partitions of one topic."""

    topic: str = field("name of the topic")
    partition_ids: tuple[Int32, ...] = field("numbers of the partitions")


class TransactionLogValue(Struct, first_flexible_version=1):
    """The producer of a transactional id, and its transaction.

    Version 0 is written at level 0 of transaction.version, version 1 at the levels above.
    """

    HIGHEST_VERSION: ClassVar[int] = 1

    producer_id: Int64 = field("id of the producer")
    previous_producer_id: Int64 = field(
        "id of the producer before the last change", since=1, tag=0, default=-1
    )
    next_producer_id: Int64 = field(
        "id that the producer has from the end of the transaction on", since=1, tag=1, default=-1
    )
    producer_epoch: Int16 = field("epoch of the producer")
    transaction_timeout_ms: Int32 = field("how long a transaction may take, ms")
    transaction_status: Int8 = field(
        "0 Empty, 1 Ongoing, 2 PrepareCommit, 3 PrepareAbort, 4 CompleteCommit, 5 CompleteAbort"
    )
    transaction_partitions: tuple[TransactionPartitions, ...] | None = field(
        "partitions that take part; null in state Empty"
    )
    transaction_last_update_timestamp_ms: Int64 = field("when the state was last changed")
    transaction_start_timestamp_ms: Int64 = field("when the transaction began; -1: there was none")
    client_transaction_version: Int16 = field(
        "transaction.version that the client speaks", since=1, tag=2
    )
    next_producer_epoch: Int16 = field(
        "epoch for a transaction in two phases (KIP-939)", since=1, tag=3, default=-1
    )


class TransactionRecord(NamedTuple):
    """State of a transactional id from here on; a value of None takes the entry away."""

    key: TransactionLogKey
    value: TransactionLogValue | None
    version: int = TransactionLogValue.HIGHEST_VERSION
    """In which the value is written."""


def encode(record: TransactionRecord) -> tuple[bytes, bytes | None]:
    """Return key and value of a record.

    Raises:
        EncodeError: a field does not fit, such as an id of more than 32767 bytes.
    """
    key = encode_numbered(record.key.RECORD_TYPE, record.key, 0)
    if record.value is None:
        return key, None
    return key, encode_numbered(record.version, record.value, record.version)


def decode(key: bytes | None, value: bytes | None) -> TransactionRecord:
    """Return the record that key and value hold.

    Raises:
        UnknownRecordTypeError: a newer release has this type.
        DecodeError: anything else that is not a record, such as a value of a newer version.
    """
    if key is None:
        raise DecodeError("transaction record has no key")
    record_type = number_of(key, "the record type of a transaction record")
    if record_type != TransactionLogKey.RECORD_TYPE:
        raise UnknownRecordTypeError(record_type)
    decoded_key = decode_numbered(TransactionLogKey, 0, key, "TransactionLogKey")
    if value is None:
        return TransactionRecord(decoded_key, None)
    version = number_of(value, "the version of a transaction record")
    highest = TransactionLogValue.HIGHEST_VERSION
    if not 0 <= version <= highest:
        raise DecodeError(f"expected TransactionLogValue of version 0-{highest}, got {version}")
    found = decode_numbered(TransactionLogValue, version, value, f"TransactionLogValue v{version}")
    return TransactionRecord(decoded_key, found, version)

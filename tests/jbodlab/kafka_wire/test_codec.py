"""The generated codec against kio, for every API and version served."""

from __future__ import annotations

import datetime
import io
import random
import uuid
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from types import SimpleNamespace
from typing import Any, get_args, get_origin

import pytest
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from broker.api.table import APIS
from jbodlab.kafka_wire import api_table
from jbodlab.kafka_wire.api_key import is_flexible
from jbodlab.kafka_wire.codec import decoder, encode
from jbodlab.kafka_wire.layout import default_of, tag_of, unwrap
from jbodlab.kafka_wire.reader import CAUGHT, reader
from jbodlab.record_batch.varint import uvarint
from jbodlab.vocabulary.errors import DecodeError

VERSIONS = [(key, version) for key, api in APIS.items() for version in api.accepted_versions]
CLASSES = [
    pytest.param(make(key, version), id=f"{key.name}-{version}-{name}")
    for key, version in VERSIONS
    for name, make in (
        ("request", api_table.request_class),
        ("response", api_table.response_class),
    )
]
ENTITIES_EACH = 5


def random_primitive(kind: str, rng: random.Random) -> Any:
    match kind:
        case "bool":
            return rng.random() < 0.5
        case "int8" | "int16" | "int32" | "int64":
            bits = int(kind[3:])
            return rng.choice([0, -1, rng.randrange(-(1 << bits - 1), 1 << bits - 1)])
        case "uint16":
            return rng.randrange(1 << 16)
        case "float64":
            return rng.random()
        case "string":
            return rng.choice(["", "topic", "Größe", "x" * rng.randrange(300)])
        case "bytes" | "records":
            return rng.randbytes(rng.choice([0, 3, 200]))
        case "error_code":
            return rng.choice(list(ErrorCode))
        case "uuid":
            return rng.choice([None, uuid.UUID(int=rng.getrandbits(128))])
        case "timedelta_i32" | "timedelta_i64":
            return datetime.timedelta(milliseconds=rng.randrange(1 << 31))
        case "datetime_i64":
            return datetime.datetime.fromtimestamp(rng.randrange(1 << 31), datetime.UTC)
    raise AssertionError(kind)


def random_entity(entity_class: Any, rng: random.Random) -> Any:
    values = {}
    for field in fields(entity_class):
        annotation, optional = unwrap(field.type)
        kind = field.metadata.get("kafka_type")
        if tag_of(field) is not None and rng.random() < 0.5:
            values[field.name] = default_of(field)
        elif optional and kind not in ("uuid",) and rng.random() < 0.3:
            values[field.name] = None
        elif get_origin(annotation) is tuple:
            item, _ = unwrap(get_args(annotation)[0])
            make = random_entity if is_dataclass(item) else random_primitive
            argument = item if is_dataclass(item) else kind
            values[field.name] = tuple(make(argument, rng) for _ in range(rng.randrange(4)))
        elif is_dataclass(annotation):
            values[field.name] = random_entity(annotation, rng)
        else:
            values[field.name] = random_primitive(kind, rng)
    return entity_class(**values)


def written_by_kio(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


@pytest.mark.parametrize("entity_class", CLASSES)
def test_encoder_and_readers_agree_with_kio(entity_class: Any) -> None:
    rng = random.Random(entity_class.__module__)
    for _ in range(ENTITIES_EACH):
        entity = random_entity(entity_class, rng)
        expected = written_by_kio(entity)

        assert encode(entity_class, entity) == expected
        read_by_kio, size = entity_reader(entity_class)(expected, 0)
        assert size == len(expected)
        assert reader(entity_class)(b"head" + expected + b"tail", 4) == (read_by_kio, 4 + size)
        assert decoder(entity_class)(expected, 0) == (read_by_kio, size)


@pytest.mark.parametrize("entity_class", CLASSES)
def test_truncated_and_changed_messages_give_a_decode_error_or_a_value(entity_class: Any) -> None:
    rng = random.Random(entity_class.__module__)
    encoded = encode(entity_class, random_entity(entity_class, rng))
    read = reader(entity_class)
    damaged = [encoded[:end] for end in rng.sample(range(len(encoded)), min(20, len(encoded)))]
    for _ in range(40):
        position = rng.randrange(len(encoded)) if encoded else 0
        changed = bytearray(encoded)
        if changed:
            changed[position] ^= 1 << rng.randrange(8)
        damaged.append(bytes(changed))

    for message in damaged:
        with suppress(DecodeError):
            read(message, 0)
        with suppress(DecodeError, *CAUGHT):
            decoder(entity_class)(message, 0)


@pytest.mark.parametrize(("api_key", "version"), [pair for pair in VERSIONS if is_flexible(*pair)])
def test_unknown_tag_at_the_end_of_a_request_is_skipped(api_key: int, version: int) -> None:
    entity_class = api_table.request_class(api_key, version)
    rng = random.Random(version)
    entity = random_entity(entity_class, rng)
    tagged = [field for field in fields(entity_class) if tag_of(field) is not None]
    for field in tagged:
        object.__setattr__(entity, field.name, default_of(field))
    encoded = encode(entity_class, entity)
    assert encoded[-1] == 0
    with_tag = encoded[:-1] + b"\x01" + uvarint(9999) + b"\x03abc"

    known, _ = reader(entity_class)(encoded, 0)
    assert reader(entity_class)(with_tag, 0) == (known, len(with_tag))


@pytest.mark.parametrize("version", range(14))
def test_struct_of_an_array_may_be_given_as_its_bytes(version: int) -> None:
    response_class = api_table.response_class(api_table.ApiKey.METADATA, version)
    topic_class = api_table.item_class(response_class, "topics")
    rng = random.Random(version)
    response = random_entity(response_class, rng)
    while not response.topics:
        response = random_entity(response_class, rng)
    first, *others = response.topics
    mixed = replace(response, topics=(encode(topic_class, first), *others))

    assert encode(response_class, mixed) == encode(response_class, response)


def test_tagged_struct_of_another_class_is_left_out_at_its_default() -> None:
    response_class = api_table.response_class(api_table.ApiKey.FETCH, 12)
    partition_class = api_table.item_class(
        api_table.item_class(response_class, "responses"), "partitions"
    )
    partition = random_entity(partition_class, random.Random(1))
    tagged = {
        each.name: default_of(each) for each in fields(partition_class) if tag_of(each) is not None
    }
    of_another_class = {
        name: SimpleNamespace(**{each.name: getattr(value, each.name) for each in fields(value)})
        for name, value in tagged.items()
    }

    assert len(tagged) == 3
    assert encode(partition_class, replace(partition, **of_another_class)) == encode(
        partition_class, replace(partition, **tagged)
    )


def test_versions_that_do_not_exist_are_refused() -> None:
    for api_key, version in ((0, 99), (7, 0), (18, 99), (3, -1)):
        with pytest.raises(DecodeError):
            api_table.request_reader(api_key, version, 1)


def test_every_class_says_itself_flexible_where_the_table_does() -> None:
    for api_key, version in VERSIONS:
        for entity_class in (
            api_table.request_class(api_key, version),
            api_table.response_class(api_key, version),
        ):
            assert entity_class.__flexible__ == is_flexible(api_key, version)
            assert entity_class.__api_key__ == api_key
            assert entity_class.__version__ == version


@pytest.mark.parametrize("entity_class", CLASSES)
def test_length_that_the_message_cannot_hold_is_refused_before_memory_is_reserved(
    entity_class: Any,
) -> None:
    huge = b"\xff\xff\xff\xff\x07" if entity_class.__flexible__ else b"\x7f\xff\xff\xff"
    rng = random.Random(entity_class.__module__)
    encoded = encode(entity_class, random_entity(entity_class, rng))
    read = reader(entity_class)

    for position in range(min(len(encoded), 300)):
        try:
            read(encoded[:position] + huge + encoded[position + 1 :], 0)
        except DecodeError:
            continue

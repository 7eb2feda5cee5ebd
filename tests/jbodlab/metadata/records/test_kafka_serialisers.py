"""Every record in every version against the serialisers in Kafka's released jars.

Kafka reads what was encoded here, prints its JSON and writes it again: both must be the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest

from jbodlab.kafka_wire.kinds import FieldSpec, Form
from jbodlab.metadata.records import frame
from jbodlab.metadata.records.cluster_records import UnregisterControllerRecord
from jbodlab.metadata.records.json_text import data_text
from jbodlab.metadata.records.schema import Record
from tests.jbodlab.metadata.records.every_record import every_record, every_version, tagged
from tests.kafka.jars import RELEASE, NoKafkaError
from tests.kafka.tools import KafkaTools

pytestmark = pytest.mark.kafka

WITH_RECORDS = (RELEASE, "4.4.0")

FIRST_RELEASE = {UnregisterControllerRecord: "4.4.0"}


class Kafka(NamedTuple):
    release: str
    tools: KafkaTools


@pytest.fixture(scope="module", params=WITH_RECORDS)
def kafka(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    release = str(request.param)
    try:
        tools = KafkaTools(release)
    except NoKafkaError as error:
        pytest.skip(str(error))
    yield Kafka(release, tools)
    tools.close()


def test_kafka_reads_every_record_and_writes_the_same_bytes(kafka: Kafka) -> None:
    records = [one for one in every_record() if _is_known(kafka.release, type(one[0]))]
    data = [frame.encode(record, version).hex() for record, version in records]

    expected = [
        [record.NAME, str(version), data_text(record, version), text]
        for (record, version), text in zip(records, data, strict=True)
    ]
    assert through_kafka(kafka, data) == expected


def test_kafka_has_the_same_defaults_of_tagged_fields(kafka: Kafka) -> None:
    written_out, without = [], []
    for cls, version in every_version():
        for spec in tagged(cls, version):
            explicit = cls(unknown_tags=((spec.tag or 0, _bytes_of_default(spec)),))
            written_out.append(frame.encode(explicit, version).hex())
            without.append(frame.encode(cls(), version).hex())

    assert [line[-1] for line in through_kafka(kafka, written_out)] == without
    assert len(written_out) == 42


def through_kafka(kafka: Kafka, data: Sequence[str]) -> list[list[str]]:
    done = kafka.tools.run_alone("KafkaRecords", text="".join(f"{line}\n" for line in data))
    assert (done.code, done.err) == (0, "")
    return [line.split("\t") for line in done.out.split("\n")[:-1]]


def _bytes_of_default(spec: FieldSpec) -> bytes:
    """Return a default as it stands in a tagged field when somebody writes it out."""
    if spec.default is None:
        return b"\x00"
    if spec.kind.form is Form.ARRAY:
        assert spec.default == ()
        return b"\x01"
    size = {"b": 1, "i": 4}[spec.kind.code]
    assert isinstance(spec.default, int)
    return spec.default.to_bytes(size, "big", signed=True)


def _is_known(release: str, cls: type[Record]) -> bool:
    return FIRST_RELEASE.get(cls, "") <= release

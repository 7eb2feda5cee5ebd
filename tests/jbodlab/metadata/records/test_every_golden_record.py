"""Records of every type and version, with the bytes and the JSON that Kafka's classes gave them."""

from __future__ import annotations

from pathlib import Path

from jbodlab.metadata.records import frame
from jbodlab.metadata.records.registry import RECORD_TYPES

GOLDEN = Path(__file__).parents[3] / "golden" / "every_record.tsv"
# The texts contain line separators that are no line ends here.
LINES = [
    line.split("\t") for line in GOLDEN.read_bytes().decode().split("\n")[:-1] if line[0] != "#"
]


def test_golden_records_cover_every_type_and_version() -> None:
    expected = {
        (cls.NAME, str(version))
        for cls in RECORD_TYPES.values()
        for version in range(cls.HIGHEST_VERSION + 1)
    }

    assert {(name, version) for name, version, _, _ in LINES} == expected


def test_bytes_of_kafka_are_read_printed_and_written_as_kafka_does() -> None:
    for name, version, text, data in LINES:
        decoded = frame.decode(bytes.fromhex(data))

        assert frame.payload_text(decoded) == (
            f'{{"type":"{name}","version":{version},"data":{text}}}'
        )
        assert frame.encode(*decoded).hex() == data

"""How releases of Kafka's dump tool differ in what they print.

    up to 4.0    a leader change is ` controlType: LEADER_CHANGE(2)`
    from 4.1     a leader change is ` LeaderChange: {...}`
    up to 4.2    with --skip-record-metadata, a payload without a key begins with a blank
    from 4.3     it begins with `| `, as a key does

Everything else is the same. Without an option the release is the one whose nodes wrote the file:
they register the range of metadata.version that they support, which grows with every release.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jbodlab.errors import DecodeError, FormatError
from jbodlab.protocol.record_batch import iterate_headers, iterate_records
from jbodlab.records import frame
from jbodlab.records.cluster_records import RegisterBrokerRecord, RegisterControllerRecord
from jbodlab.records.config_records import FeatureLevelRecord
from jbodlab.records.metadata_version import FEATURE_NAME
from jbodlab.records.schema import Record

HEAD_BYTES = 1 << 20
"""How far into a file its writer is looked for; registrations are among the first records."""

_KINDS = tuple(
    bytes((frame.FRAME_VERSION, cls.API_KEY))
    for cls in (RegisterBrokerRecord, RegisterControllerRecord, FeatureLevelRecord)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What a release prints differently."""

    leader_change_body: bool = True
    indented_payload: bool = True


UP_TO_4_0 = Dialect(leader_change_body=False, indented_payload=False)
FROM_4_1 = Dialect(indented_payload=False)
LATEST = Dialect()


def of_release(release: str) -> Dialect:
    """Return the dialect of a release such as 3.9, 4.0.1 or 4.3.

    Raises:
        FormatError: it is no release.
    """
    try:
        major, minor = (int(part) for part in release.split(".")[:2])
    except ValueError as error:
        raise FormatError(f"{release} is no release of Kafka such as 3.9 or 4.3") from error
    if (major, minor) <= (4, 0):
        return UP_TO_4_0
    return FROM_4_1 if (major, minor) <= (4, 2) else LATEST


def of_level(metadata_version: int) -> Dialect:
    """Return the dialect of the release whose highest metadata.version this is."""
    if metadata_version <= 25:
        return UP_TO_4_0
    return FROM_4_1 if metadata_version <= 29 else LATEST


def of_file(path: Path) -> Dialect | None:
    """Return the dialect of the release that wrote a metadata log, None if the file tells nothing.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    supported = finalized = 0
    for record in _telling_records(head):
        match record:
            case RegisterBrokerRecord() | RegisterControllerRecord():
                for feature in record.features:
                    if feature.name == FEATURE_NAME:
                        supported = max(supported, feature.max_supported_version)
            case FeatureLevelRecord(name=name) if name == FEATURE_NAME:
                finalized = max(finalized, record.feature_level)
    level = supported or finalized
    return of_level(level) if level else None


def _telling_records(head: bytes) -> Iterator[Record]:
    """Yield registrations and feature levels up to the first damage."""
    try:
        for position, header in iterate_headers(head):
            if header.is_control or header.compression:
                continue
            for record in iterate_records(head, position, header):
                if record.key is None and record.value and record.value.startswith(_KINDS):
                    yield frame.decode(record.value).record
    except DecodeError:
        return

"""How releases of Kafka's dump tool differ in what they print.

    up to 4.0    a leader change is ` controlType: LEADER_CHANGE(2)`
    from 4.1     a leader change is ` LeaderChange: {...}`
    up to 4.2    with --skip-record-metadata, a payload without a key begins with a blank
    from 4.3     it begins with `| `, as a key does

Everything else is the same. Without an option the release is the one whose nodes wrote the file:
they register the range of metadata.version that they support, which grows with every release. A
file in which nobody registers (a later segment, the bootstrap snapshot) is of the release that the
files beside it tell, as the finalized level may be that of an earlier one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from jbodlab.errors import DecodeError, FormatError
from jbodlab.log.names import BOOTSTRAP_CHECKPOINT_FILE, LOG_SUFFIX
from jbodlab.protocol.record_batch import iterate_headers, iterate_records
from jbodlab.records import frame
from jbodlab.records.cluster_records import RegisterBrokerRecord, RegisterControllerRecord
from jbodlab.records.config_records import FeatureLevelRecord
from jbodlab.records.metadata_version import FEATURE_NAME
from jbodlab.records.schema import Record

HEAD_BYTES = 1 << 20
"""How far into a file its writer is looked for; registrations are among the first records."""

NEIGHBOURS = 4
"""How many snapshots and how many segments beside a file are asked for its writer."""
_METADATA_DIR = "__cluster_metadata-0"
_OFFSET_DIGITS = 20
_SNAPSHOT_SUFFIX = ".checkpoint"

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
        raise FormatError(f"expected a Kafka release such as 3.9 or 4.3, got {release}") from error
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
    supported, finalized = _levels(path)
    if not supported:
        with suppress(OSError):
            # Every snapshot has all registrations, a segment those of its time.
            supported = next(filter(None, (_levels(near)[0] for near in _neighbours(path))), 0)
    level = supported or finalized
    return of_level(level) if level else None


def _levels(path: Path) -> tuple[int, int]:
    """Return the highest metadata.version supported and finalized in a file; 0 if not told."""
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
    return supported, finalized


def _neighbours(path: Path) -> list[Path]:
    """Return snapshots and segments beside a file, those nearest to its offset first."""
    is_bootstrap = path.name == BOOTSTRAP_CHECKPOINT_FILE
    directory = path.parent / _METADATA_DIR if is_bootstrap else path.parent
    own = 0 if is_bootstrap else _offset_of(path)

    def nearest(suffix: str) -> list[Path]:
        found = [
            each
            for each in directory.glob(f"[0-9]*{suffix}")
            if each.name != path.name and _offset_of(each) is not None
        ]
        return sorted(found, key=lambda each: abs((_offset_of(each) or 0) - (own or 0)))

    return nearest(_SNAPSHOT_SUFFIX)[:NEIGHBOURS] + nearest(LOG_SUFFIX)[:NEIGHBOURS]


def _offset_of(path: Path) -> int | None:
    digits = path.name[:_OFFSET_DIGITS]
    return int(digits) if len(digits) == _OFFSET_DIGITS and digits.isdecimal() else None


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

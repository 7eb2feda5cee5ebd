"""Records that a controller writes when it becomes active.

    empty log                    Begin, bootstrap records, End; from metadata.version 13 on as one
                                 transaction, else as one batch
    log ends in a transaction    Abort; then as for an empty log if nothing else is in it
    else                         nothing

Then, in a batch of its own, the controller registers itself.

Source: `ActivationRecordsGenerator`, KIP-868, KIP-919 for the registration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from controller.decide.settings.elr import records_for_elr
from controller.decide.settings.features import check_levels, level_records, supported_features
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.records.cluster_records import BrokerEndpoint, RegisterControllerRecord
from jbodlab.metadata.records.config_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)
from jbodlab.metadata.records.features import ELR_VERSION, default_levels
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.metadata_version import (
    CONTROLLER_REGISTRATION_LEVEL,
    FEATURE_NAME,
    LATEST,
    TRANSACTION_LEVEL,
)
from jbodlab.vocabulary.endpoint import Endpoint
from jbodlab.vocabulary.errors import FormatError
from jbodlab.vocabulary.ids import BrokerId

TRANSACTION_NAME = "Bootstrap records"
ABORT_REASON = "Controller failover"


def activation_records(
    image: MetadataImage,
    transaction_is_open: bool,
    bootstrap: Sequence[VersionedRecord],
    static_configs: Mapping[str, str],
) -> list[VersionedRecord]:
    """Return the records of becoming active, to be written as one batch.

    Args:
        image: State of everything in the log outside of open transactions.
        transaction_is_open: Whether the log ends inside a transaction: its writer died.
        bootstrap: The records of `bootstrap.checkpoint`; empty if there is no such file.
        static_configs: The property file of this controller.

    Raises:
        FormatError: a feature has a level that is not supported, or the bootstrap records do not
            set metadata.version.
    """
    records = []
    if transaction_is_open:
        records.append(VersionedRecord(AbortTransactionRecord(reason=ABORT_REASON), 0))
    if FEATURE_NAME in image.features.levels:
        check_levels(image.features.levels)
        return records
    first = list(bootstrap) or level_records({FEATURE_NAME: LATEST, **default_levels(LATEST)})
    levels = {
        record.name: record.feature_level
        for record, _ in first
        if isinstance(record, FeatureLevelRecord)
    }
    if FEATURE_NAME not in levels:
        raise FormatError(f"the bootstrap records do not set {FEATURE_NAME}")
    check_levels(levels)
    if levels.get(ELR_VERSION, 0) > 0:
        first += [
            VersionedRecord(config, 0) for config in records_for_elr(image.configs, static_configs)
        ]
    if levels[FEATURE_NAME] < TRANSACTION_LEVEL:
        return records + first
    begin = VersionedRecord(BeginTransactionRecord(name=TRANSACTION_NAME), 0)
    return [*records, begin, *first, VersionedRecord(EndTransactionRecord(), 0)]


def registration_records(
    metadata_version: int,
    controller_id: BrokerId,
    incarnation_id: UUID,
    listeners: Iterable[Endpoint],
) -> list[VersionedRecord]:
    """Return the record with which a controller process announces itself, if the level has it."""
    if metadata_version < CONTROLLER_REGISTRATION_LEVEL:
        return []
    record = RegisterControllerRecord(
        controller_id=controller_id,
        incarnation_id=incarnation_id,
        end_points=tuple(
            BrokerEndpoint(
                name=each.name,
                host=each.host,
                port=each.port,
                security_protocol=each.security_protocol,
            )
            for each in listeners
        ),
        features=supported_features(),
    )
    return [VersionedRecord(record, 0)]


def is_registered(image: MetadataImage, records: Iterable[VersionedRecord]) -> bool:
    """Return whether registrations of controllers would change nothing."""
    return all(
        isinstance(record, RegisterControllerRecord)
        and (known := image.cluster.controllers.get(record.controller_id)) is not None
        and (known.incarnation_id, known.end_points) == (record.incarnation_id, record.end_points)
        for record, _ in records
    )

"""AlterClientQuotas: limits for what clients send, fetch and change, and for their use of the loop.

Source: `org.apache.kafka.controller.ClientQuotaControlManager`, KIP-546, KIP-612.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from controller.decide.state import ControllerResult, ControllerState, RecordList
from jbodlab.controller_api.requests import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredQuota,
    QuotaChange,
    QuotaEntry,
)
from jbodlab.metadata.client_quota import CLIENT_ID, IP, OF_CLIENTS, OF_IPS, USER, WHOLE, normal_ip
from jbodlab.metadata.image.settings_image import QuotaEntities
from jbodlab.metadata.records.config_records import ClientQuotaRecord, QuotaEntity
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError


def alter_client_quotas(
    request: AlterClientQuotasRequest, state: ControllerState, _now_ms: int
) -> ControllerResult[AlterClientQuotasResponse]:
    """Set and remove quotas; of each entry all or none.

    Raises:
        KafkaError: POLICY_VIOLATION, too many changes for one request.
    """
    times = Counter(_entities(entry) for entry in request.entries)
    records = RecordList(state.metadata_version)
    answers = []
    for entry in request.entries:
        code, text = ErrorCode.NONE, ""
        try:
            if times[_entities(entry)] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "duplicate entity")
            for record in list(_changes(entry, state)):
                records.add(record)
        except KafkaError as error:
            code, text = error.code, error.message
        answers.append(AlteredQuota(entity=entry.entity, error_code=code, error_message=text))
    records.check_size()
    if request.validate_only:
        records = RecordList(state.metadata_version)
    return ControllerResult(
        response=AlterClientQuotasResponse(entries=tuple(answers)),
        records=records.as_tuple(),
        atomic=True,
    )


def _changes(entry: QuotaEntry, state: ControllerState) -> Iterator[ClientQuotaRecord]:
    """Yield the records of one entry; raises KafkaError where a change is not possible."""
    keys = _check_entity(entry)
    before = state.image.quotas.get(_entities(entry), {})
    for change in entry.ops:
        _check_key(change, keys)
        if change.remove:
            if change.key in before:
                yield _record(entry, change.key, 0.0, remove=True)
        elif before.get(change.key) != change.value:
            yield _record(entry, change.key, change.value, remove=False)


def _record(entry: QuotaEntry, key: str, value: float, *, remove: bool) -> ClientQuotaRecord:
    entity = tuple(
        QuotaEntity(entity_type=each.entity_type, entity_name=each.entity_name)
        for each in entry.entity
    )
    return ClientQuotaRecord(entity=entity, key=key, value=value, remove=remove)


def _entities(entry: QuotaEntry) -> QuotaEntities:
    return frozenset((each.entity_type, each.entity_name) for each in entry.entity)


def _check_entity(entry: QuotaEntry) -> frozenset[str]:
    """Return the quotas that there are for such an entity."""
    kinds = [each.entity_type for each in entry.entity]
    if not kinds:
        raise _invalid("Invalid empty client quota entity")
    if len(set(kinds)) < len(kinds):
        raise _invalid("Invalid client quota entity, contains duplicate entity entry")
    for each in entry.entity:
        if each.entity_type not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unhandled client quota entity type: {each.entity_type}")
        if each.entity_name == "":
            raise _invalid(f"Empty {each.entity_type} not supported")
    if IP not in kinds:
        return OF_CLIENTS
    if len(kinds) > 1:
        raise _invalid("a quota of an IP address must not name a user or client id")
    if not all(change.remove for change in entry.ops):
        _check_ip(entry.entity[0].entity_name)
    return OF_IPS


def _check_ip(name: str | None) -> None:
    """Raise KafkaError where no connection can come from what is named so.

    Kafka takes host names too, and looks each up; a quota here is for what is written there.
    """
    if name is None:
        return
    try:
        usual = normal_ip(name)
    except ValueError:
        raise _invalid(f"{name} is not an IP address") from None
    if usual != name:
        raise _invalid(f"{name} must be written as {usual}")


def _check_key(change: QuotaChange, keys: frozenset[str]) -> None:
    if change.key not in keys:
        raise _invalid(f"Invalid configuration key {change.key} for this kind of entity")
    if change.remove:
        return
    if not change.value > 0:
        raise _invalid(f"Quota {change.key} must be greater than 0")
    if change.key in WHOLE and not float(change.value).is_integer():
        raise _invalid(f"Quota {change.key} must be an integer value")


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)

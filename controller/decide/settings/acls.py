"""CreateAcls and DeleteAcls: entries that are wrong are left out, all others are written.

Source: `org.apache.kafka.controller.AclControlManager`, KIP-801. Beyond Kafka a code that means
nothing is an error of its entry and not of the request, and there are limits.
"""

from __future__ import annotations

from controller.decide.state import ControllerResult, ControllerState, IdSource, RecordList
from jbodlab.controller_api.requests import (
    RECORDS_PER_REQUEST_MAX,
    TOO_LARGE,
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DeletedAcl,
)
from jbodlab.metadata.records.security_records import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)
from jbodlab.security.acl import ENTRIES_MAX, AccessControlEntry, AclFilter, doubts, entry_of
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

NO_AUTHORIZER = "No Authorizer is configured on the controller"


def create_acls(
    request: CreateAclsRequest, state: ControllerState, _now_ms: int, *, new_id: IdSource
) -> ControllerResult[CreateAclsResponse]:
    """Write entries; one that there is already is no error, and no second record.

    Raises:
        KafkaError: SECURITY_DISABLED without an authorizer; INVALID_REQUEST, too many for one
            request.
    """
    _check_authorizer(state)
    known = set(map(entry_of, state.image.security.acls.values()))
    records = RecordList(state.metadata_version)
    results = []
    for creation in request.creations:
        entry = _entry(creation)
        reason = next(doubts(entry), "")
        if not reason and entry not in known:
            if len(known) >= ENTRIES_MAX:
                reason = f"the limit of {ENTRIES_MAX} access control entries is reached"
            else:
                known.add(entry)
                records.add(AccessControlEntryRecord(id=new_id(), **entry._asdict()))
        code = ErrorCode.INVALID_REQUEST if reason else ErrorCode.NONE
        results.append(AclCreationResult(error_code=code, error_message=reason))
    _check_size(records)
    return ControllerResult(
        response=CreateAclsResponse(results=tuple(results)),
        records=records.as_tuple(),
        atomic=True,
    )


def delete_acls(
    request: DeleteAclsRequest, state: ControllerState, _now_ms: int
) -> ControllerResult[DeleteAclsResponse]:
    """Remove what filters match; every filter is told all of it, and a record is written once.

    Raises:
        KafkaError: as `create_acls`.
    """
    _check_authorizer(state)
    entries = {key: entry_of(record) for key, record in state.image.security.acls.items()}
    removed = {}
    results = []
    for each in request.filters:
        wanted = _filter(each)
        if not wanted.is_known:
            results.append(
                DeleteAclsFilterResult(
                    error_code=ErrorCode.INVALID_REQUEST,
                    error_message="a code of the filter means nothing",
                )
            )
            continue
        found = {key: entry for key, entry in entries.items() if wanted.matches(entry)}
        removed.update(found)
        results.append(
            DeleteAclsFilterResult(
                matching_acls=tuple(DeletedAcl(**entry._asdict()) for entry in found.values())
            )
        )
    records = RecordList(state.metadata_version)
    for key in removed:
        records.add(RemoveAccessControlEntryRecord(id=key))
    _check_size(records)
    return ControllerResult(
        response=DeleteAclsResponse(filter_results=tuple(results)),
        records=records.as_tuple(),
        atomic=True,
    )


def _check_authorizer(state: ControllerState) -> None:
    if state.settings.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)


def _check_size(records: RecordList) -> None:
    if len(records) > RECORDS_PER_REQUEST_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, TOO_LARGE)


def _entry(creation: AclCreation) -> AccessControlEntry:
    return AccessControlEntry(
        resource_type=creation.resource_type,
        resource_name=creation.resource_name,
        pattern_type=creation.resource_pattern_type,
        principal=creation.principal,
        host=creation.host,
        operation=creation.operation,
        permission_type=creation.permission_type,
    )


def _filter(each: DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        resource_type=each.resource_type_filter,
        resource_name=each.resource_name_filter,
        pattern_type=each.pattern_type_filter,
        principal=each.principal_filter,
        host=each.host_filter,
        operation=each.operation,
        permission_type=each.permission_type,
    )

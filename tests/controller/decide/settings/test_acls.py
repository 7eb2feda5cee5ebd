from __future__ import annotations

from functools import partial
from itertools import count
from uuid import UUID

import pytest

from controller.decide.settings import acls
from controller.decide.settings.acls import create_acls, delete_acls
from jbodlab.controller_api.requests import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
)
from jbodlab.metadata.records.security_records import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)
from jbodlab.security.acl import (
    ANY,
    MATCH,
    UNKNOWN,
    AclFilter,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
    entry_of,
)
from jbodlab.security.authorizer import AuthorizerSettings
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from tests.builders import PureController

OK, INVALID = ErrorCode.NONE, ErrorCode.INVALID_REQUEST
READ, WRITE = AclOperation.READ, AclOperation.WRITE


def secured() -> PureController:
    return PureController(authorizer=AuthorizerSettings())


def creation(name: str = "t", operation: int = READ, **changes: object) -> AclCreation:
    values: dict[str, object] = {
        "resource_type": ResourceType.TOPIC,
        "resource_name": name,
        "resource_pattern_type": PatternType.LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": operation,
        "permission_type": Permission.ALLOW,
    }
    return AclCreation(**{**values, **changes})  # type: ignore[arg-type]


def wanted(name: str | None = None, pattern: int = ANY, **changes: object) -> DeleteAclsFilter:
    values: dict[str, object] = {
        "resource_type_filter": ANY,
        "resource_name_filter": name,
        "pattern_type_filter": pattern,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
    }
    return DeleteAclsFilter(**{**values, **changes})  # type: ignore[arg-type]


def create(controller: PureController, *creations: AclCreation) -> list[ErrorCode]:
    ids = count(len(controller.state.image.security.acls) + 1)
    request = CreateAclsRequest(creations=creations)
    decide = partial(create_acls, new_id=lambda: UUID(int=next(ids)))
    response = controller.ask(decide, request)
    return [each.error_code for each in response.results]


def delete(controller: PureController, *filters: DeleteAclsFilter) -> list[list[str] | ErrorCode]:
    response = controller.ask(delete_acls, DeleteAclsRequest(filters=filters))
    return [
        each.error_code or [acl.resource_name for acl in each.matching_acls]
        for each in response.filter_results
    ]


def test_a10_acl_requests() -> None:
    """The same entry twice is one record; two filters on it tell of it twice, removed once."""
    controller = secured()

    assert create(controller, creation(), creation()) == [OK, OK]
    assert controller.written() == [
        AccessControlEntryRecord(
            id=UUID(int=1),
            resource_type=2,
            resource_name="t",
            pattern_type=3,
            principal="User:alice",
            host="*",
            operation=3,
            permission_type=3,
        )
    ]
    assert create(controller, creation()) == [OK]
    assert controller.written() == []
    assert delete(controller, wanted("t"), wanted(), wanted(operation=UNKNOWN)) == [
        ["t"],
        ["t"],
        INVALID,
    ]
    assert controller.written() == [RemoveAccessControlEntryRecord(id=UUID(int=1))]
    assert delete(controller, wanted()) == [[]]


@pytest.mark.parametrize(
    "wrong",
    [
        creation(""),
        creation(operation=ANY),
        creation(operation=UNKNOWN),
        creation(operation=16),
        creation(resource_type=ANY),
        creation(resource_type=8),
        creation(resource_pattern_type=ANY),
        creation(resource_pattern_type=MATCH),
        creation(permission_type=ANY),
        creation(resource_type=ResourceType.CLUSTER),
        creation(principal="alice"),
        creation(host=""),
        creation("t" * 250),
        creation(principal="User:" + "a" * 1_024),
        creation(host="1" * 65),
    ],
)
def test_an_entry_that_is_wrong_fails_alone(wrong: AclCreation) -> None:
    controller = secured()

    assert create(controller, wrong, creation()) == [INVALID, OK]

    assert len(controller.written()) == 1


def test_without_an_authorizer_there_are_no_entries() -> None:
    controller = PureController()

    for ask in (lambda: create(controller, creation()), lambda: delete(controller, wanted())):
        with pytest.raises(KafkaError) as raised:
            ask()
        assert raised.value.code is ErrorCode.SECURITY_DISABLED


def test_there_is_a_limit_of_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls, "ENTRIES_MAX", 2)
    controller = secured()

    assert create(controller, creation("a"), creation("b"), creation("c"), creation("a")) == [
        OK,
        OK,
        INVALID,
        OK,
    ]


@pytest.mark.parametrize(
    ("name", "pattern", "found"),
    [
        (None, ANY, {"t1", "t", "*"}),
        ("t1", ANY, {"t1"}),
        ("t", ANY, {"t"}),
        ("t", PatternType.LITERAL, set()),
        ("t1", PatternType.LITERAL, {"t1"}),
        (None, PatternType.PREFIXED, {"t"}),
        ("t1", MATCH, {"t1", "t", "*"}),
        ("t12", MATCH, {"t", "*"}),
        ("x", MATCH, {"*"}),
    ],
)
def test_filters_name_patterns_or_what_covers_a_name(
    name: str | None, pattern: int, found: set[str]
) -> None:
    controller = secured()
    create(
        controller,
        creation("t1"),
        creation("t", resource_pattern_type=PatternType.PREFIXED),
        creation("*"),
    )
    entries = map(entry_of, controller.state.image.security.acls.values())
    a_filter = AclFilter(ANY, name, pattern, None, None, ANY, ANY)

    assert {each.resource_name for each in entries if a_filter.matches(each)} == found

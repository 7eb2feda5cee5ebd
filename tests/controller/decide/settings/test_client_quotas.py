from __future__ import annotations

import pytest

from controller.decide.settings.client_quotas import alter_client_quotas
from jbodlab.controller_api.requests import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    QuotaChange,
    QuotaEntityName,
    QuotaEntry,
)
from jbodlab.metadata.records.config_records import ClientQuotaRecord, QuotaEntity
from jbodlab.vocabulary.error_code import ErrorCode
from tests.builders import PureController

RATE, PERCENTAGE = "producer_byte_rate", "request_percentage"


def entry(*changes: QuotaChange, **names: str | None) -> QuotaEntry:
    return QuotaEntry(
        entity=tuple(
            QuotaEntityName(entity_type=kind.replace("_", "-"), entity_name=name)
            for kind, name in names.items()
        ),
        ops=changes,
    )


def put(key: str, value: float) -> QuotaChange:
    return QuotaChange(key=key, value=value)


def alter(
    controller: PureController, *entries: QuotaEntry, validate_only: bool = False
) -> AlterClientQuotasResponse:
    request = AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
    result = alter_client_quotas(request, controller.state, 0)
    controller.replay(*(record for record, _ in result.records))
    return result.response


def test_quotas_are_set_changed_and_removed() -> None:
    controller = PureController()
    whom = frozenset({("user", "u"), ("client-id", None)})
    answer = alter(controller, entry(put(RATE, 5), put(PERCENTAGE, 2.5), user="u", client_id=None))
    assert [each.error_code for each in answer.entries] == [ErrorCode.NONE]
    assert controller.state.image.quotas == {whom: {RATE: 5.0, PERCENTAGE: 2.5}}

    alter(
        controller,
        entry(QuotaChange(key=RATE, remove=True), put(PERCENTAGE, 3), client_id=None, user="u"),
    )
    assert controller.state.image.quotas == {whom: {PERCENTAGE: 3.0}}


def test_records_are_written_for_real_changes_only() -> None:
    controller = PureController()
    request = AlterClientQuotasRequest(
        entries=(entry(put(RATE, 5), QuotaChange(key=PERCENTAGE, remove=True), user=None),)
    )
    (written,) = (r for r, _ in alter_client_quotas(request, controller.state, 0).records)
    assert written == ClientQuotaRecord(
        entity=(QuotaEntity(entity_type="user", entity_name=None),),
        key=RATE,
        value=5.0,
        remove=False,
    )
    controller.replay(written)
    assert not alter_client_quotas(request, controller.state, 0).records


def test_nothing_is_written_where_only_the_check_is_wanted() -> None:
    controller = PureController()
    alter(controller, entry(put(RATE, 5), user="u"), validate_only=True)
    assert not controller.state.image.quotas


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (entry(put(RATE, 5)), "empty"),
        (entry(put(RATE, 5), planet="mars"), "planet"),
        (entry(put(RATE, 5), user=""), "Empty user"),
        (entry(put("connection_creation_rate", 1.5), ip="127.0.0.1"), "integer"),
        (entry(put("connection_creation_rate", 5), ip="somewhere"), "not an IP address"),
        (entry(put("connection_creation_rate", 5), ip="::ffff:10.0.0.1"), "written as 10.0.0.1"),
        (entry(put("connection_creation_rate", 5), ip="10.0.0.1", user="u"), "must not name"),
        (entry(put("connection_creation_rate", 5), user="u"), "connection_creation_rate"),
        (entry(put("controller_mutation_rate", 5), ip=None), "controller_mutation_rate"),
        (entry(put("nonsense", 5), user="u"), "nonsense"),
        (entry(put(RATE, 0), user="u"), "greater than 0"),
        (entry(put(RATE, float("nan")), user="u"), "greater than 0"),
        (entry(put(RATE, 1.5), user="u"), "integer"),
        (entry(put(RATE, float("inf")), user="u"), "integer"),
    ],
)
def test_what_is_not_possible_is_refused_and_the_rest_is_done(bad: QuotaEntry, said: str) -> None:
    controller = PureController()
    answer = alter(controller, bad, entry(put(RATE, 7), client_id="other"))
    refused, done = answer.entries
    assert (refused.error_code, done.error_code) == (ErrorCode.INVALID_REQUEST, ErrorCode.NONE)
    assert said in refused.error_message
    assert list(controller.state.image.quotas.values()) == [{RATE: 7.0}]


def test_addresses_have_a_rate_of_connections_and_clients_one_of_changes() -> None:
    controller = PureController()
    answer = alter(
        controller,
        entry(put("connection_creation_rate", 5), ip="10.0.0.1"),
        entry(put("connection_creation_rate", 6), ip=None),
        entry(put("controller_mutation_rate", 0.5), client_id="c"),
    )
    assert {each.error_code for each in answer.entries} == {ErrorCode.NONE}
    assert controller.state.image.quotas == {
        frozenset({("ip", "10.0.0.1")}): {"connection_creation_rate": 5.0},
        frozenset({("ip", None)}): {"connection_creation_rate": 6.0},
        frozenset({("client-id", "c")}): {"controller_mutation_rate": 0.5},
    }


def test_the_quota_of_a_host_that_another_controller_took_can_be_removed() -> None:
    controller = PureController()
    host = (QuotaEntity(entity_type="ip", entity_name="a-host"),)
    key = "connection_creation_rate"
    controller.replay(ClientQuotaRecord(entity=host, key=key, value=1.0, remove=False))
    alter(controller, entry(QuotaChange(key=key, remove=True), ip="a-host"))
    assert not controller.state.image.quotas


def test_an_entity_that_is_named_twice_is_changed_by_neither() -> None:
    controller = PureController()
    answer = alter(controller, entry(put(RATE, 5), user="u"), entry(put(RATE, 6), user="u"))
    assert {each.error_code for each in answer.entries} == {ErrorCode.INVALID_REQUEST}
    assert not controller.state.image.quotas

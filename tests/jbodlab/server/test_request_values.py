from __future__ import annotations

import datetime
from importlib import import_module
from typing import Any, NamedTuple

import msgspec
import pytest

from broker.transactions.requests import AddPartitions
from jbodlab.server.request_values import value_of


class Protocol(NamedTuple):
    name: str
    metadata: bytes


class Join(msgspec.Struct, frozen=True, kw_only=True):
    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    protocols: tuple[Protocol, ...] = ()


def join_group(version: int) -> Any:
    kio = import_module(f"kio.schema.join_group.v{version}.request")
    later: dict[str, Any] = {}
    if version >= 1:
        later["rebalance_timeout"] = datetime.timedelta(seconds=9)
    if version >= 5:
        later["group_instance_id"] = "one"
    return kio.JoinGroupRequest(
        group_id="g",
        session_timeout=datetime.timedelta(seconds=6),
        member_id="m",
        protocol_type="consumer",
        protocols=(kio.JoinGroupRequestProtocol(name="range", metadata=b"x"),),
        **later,
    )


@pytest.mark.parametrize(
    ("version", "rebalance_timeout_ms", "instance_id"),
    [(0, -1, None), (1, 9000, None), (5, 9000, "one")],
)
def test_a_value_has_the_fields_of_the_version_and_defaults_for_others(
    version: int, rebalance_timeout_ms: int, instance_id: str | None
) -> None:
    assert value_of(Join, join_group(version), {"member_id": "given"}) == Join(
        group_id="g",
        session_timeout_ms=6000,
        rebalance_timeout_ms=rebalance_timeout_ms,
        member_id="given",
        group_instance_id=instance_id,
        protocols=(Protocol("range", b"x"),),
    )


def test_a_field_of_older_versions_is_found_behind_the_prefix_of_kio() -> None:
    kio = import_module("kio.schema.add_partitions_to_txn.v3.request")
    request = kio.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=7,
        v3_and_below_producer_epoch=3,
        v3_and_below_topics=(),
    )

    assert value_of(AddPartitions, request, {"partitions": (), "transaction_version": 0}) == (
        AddPartitions(
            transactional_id="t",
            producer_id=7,
            producer_epoch=3,
            partitions=(),
            transaction_version=0,
        )
    )

"""A disagreement names what differs, as an operator reads it."""

from __future__ import annotations

from dataclasses import replace

from analytics.rare.state_difference import disagreement
from jbodlab.metadata.image.broker_registration import BrokerEndpoint, BrokerRegistration
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, DirectoryId, PartitionEpoch
from tests.analytics.builders import partition_record, uid

STATE = PartitionRegistration.from_record(
    partition_record(uid(7), replicas=(1, 2), directories=(uid(1), uid(2)))
)
BROKER = BrokerRegistration(
    broker_id=BrokerId(1), epoch=BrokerEpoch(7), incarnation_id=uid(9), rack="a"
)


def test_only_the_fields_that_differ_are_named() -> None:
    other = replace(STATE, isr=(BrokerId(1),), partition_epoch=PartitionEpoch(5))

    assert disagreement("orders-3", STATE, other) == (
        "orders-3 has isr [1, 2], in the snapshot [1]; partition_epoch 0, in the snapshot 5"
    )


def test_ids_are_in_kafkas_text_form_and_nothing_is_called_none() -> None:
    other = replace(STATE, directories=(DirectoryId(uid(1)),))
    assert disagreement("t-0", STATE, other) == (
        "t-0 has directories [AAAAEAAAAAAAAAAAAAAAAA, AAAAIAAAAAAAAAAAAAAAAA], "
        "in the snapshot [AAAAEAAAAAAAAAAAAAAAAA]"
    )
    endpoint = BrokerEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0)
    assert disagreement(
        "broker 1", BROKER, replace(BROKER, rack=None, fenced=False, endpoints=(endpoint,))
    ) == (
        "broker 1 has endpoints [], in the snapshot "
        "[(name=PLAINTEXT host=h port=9092 security_protocol=0)]; rack a, in the snapshot none; "
        "fenced true, in the snapshot false"
    )


def test_what_only_one_of_them_knows_is_said_in_short() -> None:
    assert disagreement("t-0", None, STATE) == "t-0 is not there, in the snapshot there"
    assert disagreement("broker 1", BROKER, None) == "broker 1 is there, in the snapshot not there"

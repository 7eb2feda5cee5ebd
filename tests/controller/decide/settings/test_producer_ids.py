from __future__ import annotations

from controller.decide.settings.producer_ids import allocate_producer_ids
from jbodlab.controller_api.requests import AllocateProducerIdsRequest
from jbodlab.metadata.records.config_records import ProducerIdsRecord
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId
from tests.builders import PureController


def test_blocks_of_a_thousand_ids_follow_each_other() -> None:
    controller = PureController()
    epoch = controller.add_broker(1, "A1")
    request = AllocateProducerIdsRequest(broker_id=BrokerId(1), broker_epoch=epoch)

    first = controller.ask(allocate_producer_ids, request)
    second = controller.ask(allocate_producer_ids, request)

    assert (first.producer_id_start, first.producer_id_len) == (0, 1000)
    assert (second.producer_id_start, second.producer_id_len) == (1000, 1000)
    assert controller.written() == [
        ProducerIdsRecord(broker_id=BrokerId(1), broker_epoch=epoch, next_producer_id=2000)
    ]


def test_a_stale_broker_gets_none() -> None:
    controller = PureController()
    epoch = controller.add_broker(1, "A1")
    request = AllocateProducerIdsRequest(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(epoch + 1))

    answer = controller.ask(allocate_producer_ids, request)

    assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert controller.records == ()

"""Needs of a cluster with eligible leader replicas, and settings that go with them.

Which replicas are eligible depends on `min.insync.replicas`, so that all nodes must go by the same
value: the cluster has one for all brokers, and no broker has its own. When it changes, the
eligible replicas of the topics are forgotten: they were so by another value.

Source: `ConfigurationControlManager.maybeGenerateElrSafetyRecords`,
`createClearElrRecordsAsNeeded`, KIP-966.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from controller.decide.state import MIN_ISR_CONFIG, MIN_ISR_DEFAULT, ControllerState, partitions
from jbodlab.metadata.image.settings_image import ConfigsImage
from jbodlab.metadata.records.config_records import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    ConfigRecord,
)
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import ClearElrRecord, PartitionChangeRecord
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError


def records_for_elr(
    configs: ConfigsImage, static_configs: Mapping[str, str]
) -> Iterator[ConfigRecord]:
    """Yield what the cluster needs before it has eligible leader replicas.

    Args:
        configs: The dynamic configs.
        static_configs: The property file of this controller.
    """
    if MIN_ISR_CONFIG not in configs.resource(BROKER_RESOURCE, ""):
        value = static_configs.get(MIN_ISR_CONFIG, str(MIN_ISR_DEFAULT)).strip()
        yield _config("", value)
    for (kind, name), entries in configs.resources.items():
        if kind == BROKER_RESOURCE and name and MIN_ISR_CONFIG in entries:
            yield _config(name, None)


def check_with_elr(records: Iterable[ConfigRecord]) -> None:
    """Check the changes of one resource.

    Raises:
        KafkaError: INVALID_CONFIG: a broker would have a value of its own, or the cluster none.
    """
    for record in records:
        if record.name != MIN_ISR_CONFIG or record.resource_type != BROKER_RESOURCE:
            continue
        if record.resource_name:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Broker-level {MIN_ISR_CONFIG} cannot be altered while ELR is enabled.",
            )
        if record.value is None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Cluster-level {MIN_ISR_CONFIG} cannot be removed while ELR is enabled.",
            )


def clearing(records: Iterable[Record]) -> list[ClearElrRecord]:
    """Return the records that forget eligible replicas, for changes of the value they go by."""
    return [
        ClearElrRecord(
            topic_name=record.resource_name if record.resource_type == TOPIC_RESOURCE else ""
        )
        for record in records
        if isinstance(record, ConfigRecord) and record.name == MIN_ISR_CONFIG
    ]


def without_elr(state: ControllerState) -> Iterator[Record]:
    """Yield what forgets all eligible replicas when the cluster shall have none.

    A partition that has nobody in sync would never be led again. Those who were eligible return to
    its ISR, or the last known leader, as the last member would have stayed in it.
    """
    for each in partitions(state.image):
        if each.state.isr or not (each.state.elr or each.state.last_known_elr):
            continue
        yield PartitionChangeRecord(
            partition_id=each.index,
            topic_id=each.topic_id,
            isr=each.state.elr or each.state.last_known_elr,
        )
    yield ClearElrRecord(topic_name="")


def _config(broker: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(
        resource_type=BROKER_RESOURCE, resource_name=broker, name=MIN_ISR_CONFIG, value=value
    )

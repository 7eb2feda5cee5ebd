"""Record type number <-> class."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from jbodlab.metadata.records import (
    cluster_records,
    config_records,
    security_records,
    topic_records,
)
from jbodlab.metadata.records.schema import Record

RECORD_TYPES: Mapping[int, type[Record]] = MappingProxyType(
    {
        cls.API_KEY: cls
        for cls in (
            cluster_records.RegisterBrokerRecord,
            cluster_records.UnregisterBrokerRecord,
            topic_records.TopicRecord,
            topic_records.PartitionRecord,
            config_records.ConfigRecord,
            topic_records.PartitionChangeRecord,
            cluster_records.FenceBrokerRecord,
            cluster_records.UnfenceBrokerRecord,
            topic_records.RemoveTopicRecord,
            security_records.DelegationTokenRecord,
            security_records.UserScramCredentialRecord,
            config_records.FeatureLevelRecord,
            config_records.ClientQuotaRecord,
            config_records.ProducerIdsRecord,
            cluster_records.BrokerRegistrationChangeRecord,
            security_records.AccessControlEntryRecord,
            security_records.RemoveAccessControlEntryRecord,
            config_records.NoOpRecord,
            config_records.ZkMigrationStateRecord,
            security_records.RemoveUserScramCredentialRecord,
            config_records.BeginTransactionRecord,
            config_records.EndTransactionRecord,
            config_records.AbortTransactionRecord,
            security_records.RemoveDelegationTokenRecord,
            cluster_records.RegisterControllerRecord,
            topic_records.ClearElrRecord,
            cluster_records.UnregisterControllerRecord,
        )
    }
)
"""Every type that Kafka 4.4 knows, by the number in the envelope; 6, 13 and 16 are unused."""

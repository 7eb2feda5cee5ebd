"""The settings of transaction coordinators; fields are named after Kafka's keys.

Source: `org.apache.kafka.coordinator.transaction.TransactionLogConfig` and
`TransactionStateManagerConfig`.
"""

from __future__ import annotations

import msgspec

from jbodlab.config.key_table import Values
from jbodlab.vocabulary.errors import ConfigError

TWO_PHASE_COMMIT = "transaction.two.phase.commit.enable"


class TransactionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a coordinator."""

    transaction_max_timeout_ms: int = 900_000
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    transactional_id_expiration_ms: int = 604_800_000
    transaction_state_log_num_partitions: int = 50
    transaction_state_log_replication_factor: int = 3
    transaction_state_log_min_isr: int = 2
    transaction_state_log_segment_bytes: int = 104_857_600


def transaction_settings(values: Values) -> TransactionSettings:
    """Take the settings of transactions from those of the broker.

    Raises:
        ConfigError: transactions in two phases are wanted.
    """
    if values.flag(TWO_PHASE_COMMIT):
        raise ConfigError(TWO_PHASE_COMMIT, "true", "two-phase commit (KIP-939) is not supported")
    return values.settings(TransactionSettings)

"""Error codes for producers if a record of their transaction is not written.

Source: `kafka.coordinator.transaction.TransactionStateManager.appendTransactionToLog`.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.coordination import core
from jbodlab.vocabulary.error_code import ErrorCode

APPEND_ERRORS: Mapping[ErrorCode, ErrorCode] = {
    **core.APPEND_ERRORS,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""Errors of a failed append, as producers get them."""

COMMIT_TIMEOUT_MS = 5_000
"""Longest wait for the replicas of a record; the client asks again after that."""

"""Appends of clients: each entry to its replica, or to wait until that can take it.

Source: `kafka.server.ReplicaManager.appendRecords`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from broker.replica.client_requests import HINTED, AppendEntry, AppendResult
from broker.replica.registry import ReplicaRegistry
from broker.replica.waiting import AppendRequest
from jbodlab.error_code import ErrorCode
from jbodlab.errors import KafkaError

ACKS = (-1, 0, 1)

logger = logging.getLogger(__name__)


class AppendService:
    """Takes the appends of clients."""

    def __init__(self, replicas: ReplicaRegistry, loop: asyncio.AbstractEventLoop) -> None:
        self._replicas = replicas
        self._loop = loop

    def append(
        self, entries: Sequence[AppendEntry], acks: int, timeout_ms: int
    ) -> asyncio.Future[list[AppendResult]]:
        """Append a client's batches; offsets are given out before this returns."""
        request = AppendRequest(self._loop, entries)
        for index in range(len(entries)):
            if acks in ACKS:
                self._append_entry(request, index, acks)
            else:
                request.refuse(index, ErrorCode.INVALID_REQUIRED_ACKS)
        request.time_out_after(self._loop, timeout_ms)
        return request.future

    def _append_entry(self, request: AppendRequest, index: int, acks: int) -> None:
        topic_partition = request.entries[index].topic_partition
        partition = self._replicas.partition(topic_partition)
        if partition is None:
            code, hint = self._replicas.refusal(topic_partition)
            request.refuse(index, code, hint=hint)
            return
        if partition.is_awaited:
            partition.waiters.when_ready(partial(self._append_entry, request, index, acks))
            return
        if partition.is_held:
            partition.when_released(partial(self._append_entry, request, index, acks))
            return
        try:
            partition.append(request, index, acks)
        except KafkaError as error:
            hint = partition.hint if error.code in HINTED else None
            request.refuse(index, error.code, message=error.message or None, hint=hint)
        except Exception:
            logger.exception("append to %s failed", topic_partition)
            request.refuse(index, ErrorCode.UNKNOWN_SERVER_ERROR)

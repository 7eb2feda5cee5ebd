"""Rows of DescribeLogDirs while replicas move."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.fetch.log_dir_descriptions import describe_log_dirs
from jbodlab.vocabulary.ids import TopicPartition

TP = TopicPartition("orders", 0)


class Disk:
    """A directory whose disk is looked at until it is told to answer."""

    def __init__(self, name: str) -> None:
        self.path = Path(name)
        self.is_cordoned = False
        self.answers = asyncio.Event()

    async def run(self, call: Callable[[], object]) -> tuple[int, int]:
        await self.answers.wait()
        return 100, 50


@pytest.mark.parametrize("late", [0, 1])
async def test_a_replica_that_moves_while_disks_are_looked_at_is_in_one_directory(
    late: int,
) -> None:
    disks = [Disk("/source"), Disk("/target")]
    log = SimpleNamespace(
        log_dir=disks[0],
        end_offset=3,
        state=SimpleNamespace(size_bytes=7),
    )
    partition = SimpleNamespace(topic_partition=TP, high_watermark=3)
    move = SimpleNamespace(
        topic_partition=TP,
        target=disks[1],
        future=object(),
        state=SimpleNamespace(is_over=False),
        size_bytes=7,
        lag=0,
    )
    log_dirs: Any = SimpleNamespace(all=disks)
    replicas: Any = [(partition, log)]
    moves: Any = [move]
    asked = asyncio.create_task(describe_log_dirs(log_dirs, lambda: replicas, lambda: moves, None))
    disks[1 - late].answers.set()
    for _ in range(5):
        await asyncio.sleep(0)

    log.log_dir, move.state.is_over = disks[1], True
    disks[late].answers.set()

    source, target = await asked
    assert source.replicas == ()
    assert [replica.is_future for replica in target.replicas] == [False]

"""A controller that was killed at any moment finds what was whole, and goes on from there."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from controller.decide.brokers.brokers import heartbeat
from controller.decide.brokers.registration import register_broker, unregister_broker
from controller.decide.partitions.isr import alter_partition
from controller.decide.partitions.topics import create_topics, delete_topics
from jbodlab.controller_api.requests import (
    AlterPartitionRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    NewTopic,
    TopicToDelete,
    UnregisterBrokerRequest,
)
from jbodlab.metadata.image.loader import MetadataLoader
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.log.batches import read_batches
from jbodlab.vocabulary.ids import BrokerId
from tests.builders import PureController, brokers, directories, named_uuid
from tests.controller.formatted import format_dir
from tests.controller.shell import Shell, led, shell

PARTITIONS = 7
CUTS = 25


class Life:
    """Operations as brokers and users would send them, in a random order."""

    def __init__(self, it: Shell, seed: int) -> None:
        self.it = it
        self.dice = random.Random(seed)
        self.pure = PureController()

    async def ask(self, decide: Any, *args: Any, **kwargs: Any) -> Any:
        answer = await self.it.controller.submit(partial(decide, *args, **kwargs))
        self.pure.state = self.it.controller.state
        return answer

    async def step(self, number: int) -> None:
        broker = self.dice.choice([1, 2, 3])
        names = {1: "A1,A2", 2: "B1,B2", 3: "C1,C2"}
        known = BrokerId(broker) in self.pure.state.image.cluster.brokers
        action = self.dice.choice(["create"] * 3 + ["beat"] * 3 + ["delete", "isr", "leave"])
        if not known or action == "leave":
            request = self.pure.registration(broker, names[broker], incarnation_id=UUID(int=broker))
            await self.ask(register_broker, request)
            await self.ask(heartbeat, self.pure.sign_of_life(broker))
            if self.dice.random() < 0.1:
                await self.ask(
                    unregister_broker, UnregisterBrokerRequest(broker_id=BrokerId(broker))
                )
        elif action == "create":
            replicas = brokers(*self.dice.sample([1, 2, 3], 2))
            topic = NewTopic(
                name=f"t{number}", assignments=tuple((n, replicas) for n in range(PARTITIONS))
            )
            new_id = partial(named_uuid, f"t{number}")
            await self.ask(
                create_topics,
                CreateTopicsRequest(topics=(topic,)),
                randomness=self.dice,
                new_id=new_id,
            )
        elif action == "beat":
            await self.ask(
                heartbeat,
                self.pure.sign_of_life(
                    broker,
                    want_fence=self.dice.random() < 0.3,
                    full_log_dirs=directories(self.dice.choice(["", "A1", "B1", "C1"])),
                    offline_log_dirs=self.dice.choice(["", "A1", "B1", "C1"]),
                ),
            )
        elif topics := list(self.pure.state.image.topics.by_name):
            name = self.dice.choice(topics)
            if action == "delete":
                doomed = DeleteTopicsRequest(topics=(TopicToDelete(name=name),))
                await self.ask(delete_topics, doomed)
            else:
                state = self.pure.partition(name)
                change = self.pure.isr_change(name, (broker,))
                await self.ask(
                    alter_partition,
                    AlterPartitionRequest(
                        broker_id=state.leader,
                        broker_epoch=self.pure.epoch(broker),
                        changes=(change,),
                    ),
                )


def whole(data: bytes) -> MetadataImage:
    """Return the state of the whole batches at the beginning of a log."""
    loader = MetadataLoader()
    position = 0
    while position + 12 <= len(data):
        size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        if position + size > len(data):
            break
        for batch in read_batches(data[position : position + size]):
            loader.load(batch)
        position += size
    return loader.image


@pytest.mark.parametrize("seed", range(2))
def test_any_cut_of_the_log_gives_the_state_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    # So that many results need a transaction, or are cut.
    monkeypatch.setattr("controller.lead.active_controller.RECORDS_PER_RESULT_MAX", 5)
    directory = format_dir(tmp_path / "m")
    images: list[MetadataImage] = []

    async def live() -> None:
        async with shell(directory) as it:
            life = Life(it, seed)
            for number in range(80):
                await life.step(number)
                images.append(it.committed.image)

    asyncio.run(live())
    log = directory / "__cluster_metadata-0" / f"{0:020d}.log"
    data = log.read_bytes()
    assert whole(data) == images[-1]
    # The history is one worth cutting.
    assert max(len(image.topics.by_id) for image in images) > 2
    assert len(data) > 5_000
    dice = random.Random(seed)
    for cut in sorted(dice.sample(range(400, len(data)), CUTS)):
        killed = tmp_path / "killed"
        shutil.copytree(directory, killed)
        os.truncate(killed / "__cluster_metadata-0" / log.name, cut)
        expected = whole(data[:cut])

        for _ in range(2):
            with led(killed) as it:
                image = it.image
            assert image.topics == expected.topics
            assert image.cluster.brokers == expected.cluster.brokers
        # A change that is one result for a user is there as a whole, or not at all.
        for topic in image.topics.by_id.values():
            assert len(topic.partitions) == PARTITIONS
        shutil.rmtree(killed)

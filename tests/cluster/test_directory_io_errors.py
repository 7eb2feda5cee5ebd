"""Calls inside of a directory that fail or never return while its path looks well: the directory
goes offline, and the rest of the cluster goes on without it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path

import pytest

from tests.cluster.harness import Cluster, Load, wait_for
from tests.cluster.invariants import settle
from tests.cluster.scenes import Stage

pytestmark = pytest.mark.cluster


def test_followers_folder_loses_its_permissions(stage: Stage) -> None:
    """Kafka sees it at the next roll; here it is found although nobody writes."""
    with stage.scene() as scene:
        ledger = scene.topic(min_insync_replicas="1")
        follower, path = scene.follower(ledger)
        folder = path / f"{ledger.topic}-0"
        folder.chmod(0)
        try:
            scene.wait_offline(follower, path)
            settle(scene.cluster)
            ledger.produce()
            scene.check(ledger)
        finally:
            folder.chmod(0o755)


@pytest.mark.parametrize("state", ["idle", "active"])
@pytest.mark.parametrize("target", ["roll", "checkpoint"])
def test_io_error_during_roll_or_checkpoint(target: str, state: str, stage: Stage) -> None:
    """The leader's next segment, or its next checkpoint, cannot be written."""
    with stage.scene() as scene:
        ledger = scene.topic(1, min_insync_replicas="1", internal_segment_bytes="100000")
        leader, path = scene.leader(ledger)
        if target == "roll":
            broken = path / f"{ledger.topic}-0"
            broken.chmod(0o555)
        else:
            broken = path / "replication-offset-checkpoint"
            broken.unlink()
            # A folder that is not empty cannot be replaced by a file.
            (broken / "in-the-way").mkdir(parents=True)
        try:
            if state == "active":
                ledger.send(400, size=500)
            elif target == "checkpoint":
                ledger.send(5)
            scene.wait_offline(leader, path)
            ledger.finish()
            ledger.produce()
            scene.check(ledger)
            assert scene.cluster.leaders(ledger.topic)[0] != leader
        finally:
            broken.chmod(0o755)
            if target == "checkpoint":
                shutil.rmtree(broken)
        scene.make_whole()
        scene.check(ledger)


@pytest.mark.parametrize("call", ["short", "long"])
def test_a_call_that_never_returns(call: str, stage: Stage) -> None:
    """Nobody reads those pipes, so whoever opens one for writing waits for ever."""
    with stage.scene() as scene:
        ledger = scene.topic(min_insync_replicas="2", records=0)
        leader, path = scene.leader(ledger)
        with Load(scene.cluster.bootstrap, ledger.topic, partition=0) as load:
            pipes = [path / ".jbodlab-probe"]
            if call == "long":
                # A checkpoint behind which the whole disk stands still.
                pipes = [path / "recovery-point-offset-checkpoint.tmp", *pipes]
            for pipe in pipes:
                make_pipe(scene.cluster, pipe)
            scene.wait_offline(leader, path)
            noticed = time.monotonic()
            wait_for("acknowledgements", lambda: load.acknowledged_after(noticed, 0))
        assert not load.errors
        assert "no answer within" in scene.said(leader)
        scene.check(load)
        # The thread hangs for ever; the process ends all the same.
        assert scene.cluster.node(leader).stop() == 0
        for pipe in pipes:
            pipe.unlink(missing_ok=True)


def make_pipe(cluster: Cluster, pipe: Path) -> None:
    """Put a pipe where a file is made again and again."""

    def is_made() -> bool:
        with contextlib.suppress(FileExistsError):
            os.mkfifo(pipe)
            return True
        return False

    wait_for(f"the pipe {pipe}", is_made)
    cluster.own(pipe)

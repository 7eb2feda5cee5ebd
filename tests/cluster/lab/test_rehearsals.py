"""Rehearsals on real clusters: clusters that lose, that duplicate, and plans that prove nothing.

The verdicts on plain values stand in `tests/lab/rehearsal`; here it is shown that a real loss and a
real duplicate are found, and that a fault without effect is not taken for a success.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.plan.plans import shipped
from lab.plan.reader import read
from lab.rehearsal.judgement import Outcome
from lab.rehearsal.run import Done, run
from lab.rehearsal.series import SENT

pytestmark = pytest.mark.cluster

LOSES = """\
rehearsal: 1
name: one acknowledgement and an unclean election
cluster:
  brokers: 2
  disks: {each: 1}
  config: {broker.session.timeout.ms: 2500, broker.heartbeat.interval.ms: 250}
topics:
  orders:
    partitions: 1
    replicas: 2
    config: {min.insync.replicas: 1, unclean.leader.election.enable: true}
load: [{name: writers, topic: orders, rate: 100/s, acks: 1}]
steady: {within: 30s, hold: 500ms}
timeline:
  - {at: 0s, do: kill, where: follower-of orders/0, as: behind, for: 5s}
  - {after: behind.injected, plus: 3s, do: kill, where: leader-of orders/0, as: crash, for: 8s}
end: {after: last.healed, plus: 500ms, within: 60s}
objectives: [writers.duplicated == 0]
"""
DUPLICATES = """\
rehearsal: 1
name: a producer that retries without idempotence
cluster: {brokers: 1, disks: {each: 1}}
topics: {orders: {partitions: 1, replicas: 1}}
load:
  - name: writers
    topic: orders
    rate: 100/s
    idempotent: false
    client: {socket.timeout.ms: 400, request.timeout.ms: 400}
steady: {within: 30s, hold: 500ms}
timeline:
  - {at: 0s, do: hang, calls: [write], where: leader-of orders/0, as: stall, for: 1500ms}
end: {after: last.healed, plus: 1s, within: 60s}
objectives: [writers.lost == 0, writers.duplicated == 0]
"""
PROVES_NOTHING = """\
rehearsal: 1
name: a fault without an effect, and one where nobody sends
cluster: {brokers: 1, disks: {each: 2}}
topics: {orders: {partitions: 1, replicas: 1}, quiet: {partitions: 1, replicas: 1}}
load: [{name: writers, topic: orders, rate: 100/s}]
steady: {within: 30s, hold: 500ms}
timeline:
  - {at: 0s, do: eio, calls: [truncate], where: leader-of orders/0, as: toothless, for: 500ms}
  - {after: toothless.healed, do: permission, where: leader-of quiet/0, as: unseen, for: 500ms}
end: {after: last.healed, plus: 500ms, within: 60s}
objectives: [writers.lost == 0]
"""


MOVES = """\
rehearsal: 1
name: replicas move between disks and brokers
cluster: {brokers: 2, disks: {each: 2}}
topics: {orders: {partitions: 1, replicas: 2, config: {min.insync.replicas: 1}}}
load: [{name: writers, topic: orders, rate: 50/s}]
steady: {within: 60s, hold: 500ms}
timeline:
  - {at: 0s, do: move, topic: orders, partition: 0, to: emptiest directory of broker-1}
  - {after: last.healed, do: reassign, topic: orders, partition: 0, replicas: [2/dir-1]}
end: {after: last.healed, plus: 500ms, within: 200s}
objectives: [writers.lost == 0, writers.duplicated == 0]
"""
SENDS_NOTHING = """\
rehearsal: 1
name: a client that sends nothing
cluster: {brokers: 1, disks: {each: 2}}
topics: {orders: {partitions: 1, replicas: 1}}
load: [{name: writers, topic: orders, rate: 0/s}]
steady: {within: 3s, hold: 500ms}
timeline:
  - {at: 0s, do: permission, where: leader-of orders/0, as: unseen, for: 500ms}
end: {after: last.healed, plus: 500ms, within: 60s}
objectives: [writers.lost == 0]
"""


def rehearsed(text: str, folder: Path) -> Done:
    return run(read(text, "plan.yaml"), folder, lambda _event: None)


def test_a_cluster_that_loses_acknowledged_messages_fails(tmp_path: Path) -> None:
    done = rehearsed(LOSES, tmp_path)

    assert done.judgement.outcome is Outcome.FAIL
    assert done.json["metrics"]["writers.lost"]["value"] > 0
    assert "were lost" in done.judgement.sentence


def test_a_cluster_that_duplicates_fails(tmp_path: Path) -> None:
    done = rehearsed(DUPLICATES, tmp_path)

    assert done.judgement.outcome is Outcome.FAIL
    assert done.json["metrics"]["writers.duplicated"]["value"] > 0
    assert done.json["metrics"]["writers.lost"]["value"] == 0


def test_a_fault_that_does_not_bite_and_one_where_nobody_sends_prove_nothing(
    tmp_path: Path,
) -> None:
    done = rehearsed(PROVES_NOTHING, tmp_path)

    assert done.judgement.outcome is Outcome.INCONCLUSIVE
    assert [text.split(" ", 1)[0] for text in done.judgement.doubts] == ["toothless", "nothing"]
    kept = json.loads((tmp_path / "result.json").read_text())
    assert kept["doubts"] == list(done.judgement.doubts)
    lines = (tmp_path / "events.jsonl").read_text().splitlines()
    kinds = [json.loads(line)["kind"] for line in lines]
    assert {"steady", "injected", "offline", "healed", "revive"} <= set(kinds)


def test_replicas_move_as_a_plan_says(tmp_path: Path) -> None:
    done = rehearsed(MOVES, tmp_path)

    assert done.judgement.outcome is Outcome.PASS, done.judgement.doubts
    lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    said = [line["text"] for line in lines if line["kind"] in ("move", "reassign")]
    assert len(said) == 2
    assert said[0].startswith("the replica of orders-0 has moved to broker-1/dir-")
    assert said[1] == "orders-0 has the replicas 2/dir-1"


def test_what_clients_of_a_former_run_left_in_the_folder_is_not_read(tmp_path: Path) -> None:
    left = tmp_path / "clients" / "writers.bin"
    left.parent.mkdir()
    left.write_bytes(SENT.pack(1, 1, 2, 0, 7, 0, 0, 0) * 100)

    done = rehearsed(SENDS_NOTHING, tmp_path)

    assert done.judgement.outcome is Outcome.INCONCLUSIVE
    assert done.json["metrics"]["writers.lost"]["value"] == 0


@pytest.mark.soak
@pytest.mark.parametrize("name", shipped())
def test_a_shipped_plan_ends_with_the_verdict_that_it_should(name: str, tmp_path: Path) -> None:
    done = rehearsed(shipped()[name], tmp_path)

    judged = done.judgement
    assert judged.doubts == ()
    for field in ("lost", "duplicated", "reordered"):
        assert done.json["metrics"][f"writers.{field}"]["value"] == 0
    if any("this machine was busy" in warning for warning in judged.warnings):
        pytest.skip(f"times tell nothing here: {judged.warnings[-1]}")
    assert judged.outcome is Outcome.PASS, judged.missed

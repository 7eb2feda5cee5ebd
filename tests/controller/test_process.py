"""The program itself: a process, its port, its files."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from jbodlab.controller_api import messages as pb
from jbodlab.controller_api import requests
from jbodlab.controller_api.grpc_transport import ControllerStub
from jbodlab.controller_api.translate import to_proto
from jbodlab.metadata.log.batches import read_batches
from jbodlab.metadata.log.metadata_log import MetadataLog
from jbodlab.metadata.records.cluster_records import BrokerRegistrationChangeRecord
from jbodlab.metadata.records.config_records import NoOpRecord
from jbodlab.metadata.records.topic_records import PartitionChangeRecord
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, Offset
from tests.builders import CLUSTER_ID, brokers, directories
from tests.controller.formatted import NODE_ID, format_dir
from tests.controller.process import DEADLINE_S, ROOT, Process

pytestmark = pytest.mark.process


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    with Process(tmp_path) as it:
        yield it


def test_a_cluster_survives_a_killed_controller(process: Process) -> None:
    process.start()
    one = process.register(1, "A1,A2")
    two = process.register(2, "B1")
    assert not process.heartbeat(1, one).is_fenced
    assert not process.heartbeat(2, two).is_fenced
    topic = requests.NewTopic(name="foo", assignments=((0, brokers(1, 2)),))
    created = process.ask("CreateTopics", requests.CreateTopicsRequest(topics=(topic,))).topics[0]
    assert created.error_code == ErrorCode.NONE
    assigned = process.ask(
        "AssignReplicasToDirs",
        requests.AssignReplicasToDirsRequest(
            broker_id=BrokerId(1),
            broker_epoch=one,
            assignments=(
                requests.DirectoryAssignment(
                    topic_id=created.topic_id, partition=0, directory=directories("A1")[0]
                ),
            ),
        ),
    )
    assert assigned.results[0] == ErrorCode.NONE
    process.heartbeat(1, one, offline="A1")

    assert process.stop(signal.SIGKILL) == -signal.SIGKILL
    records, before = process.log()
    written = [record for record in records if not isinstance(record, NoOpRecord)]
    assert [type(record) for record in written[-2:]] == [
        PartitionChangeRecord,
        BrokerRegistrationChangeRecord,
    ]
    assert written[-1].log_dirs == directories("A2")

    process.start()
    # Everybody was heard of just now, and the epochs are still good.
    assert process.heartbeat(1, one, offline="A1").is_caught_up
    assert process.heartbeat(2, two).is_caught_up
    quorum = process.call("DescribeQuorum", pb.DescribeQuorumRequest())
    assert (quorum.leader_id, quorum.leader_epoch, quorum.cluster_id) == (NODE_ID, 2, CLUSTER_ID)
    assert process.stop(signal.SIGTERM) == 0

    _, after = process.log()
    assert after.cluster.brokers == before.cluster.brokers
    assert after.topics == before.topics
    assert after.topics.by_name["foo"].partitions[0].leader == 2
    assert after.features == before.features


def test_brokers_that_stay_silent_after_a_restart_are_fenced(process: Process) -> None:
    process.configure(broker_session_timeout_ms="600")
    process.start()
    epoch = process.register(1, "A1")
    process.heartbeat(1, epoch)
    process.stop(signal.SIGKILL)
    process.start()

    # Nobody calls; the timer runs by itself.
    with grpc.insecure_channel(f"127.0.0.1:{process.port}") as channel:
        request = to_proto(
            requests.MetadataStreamRequest(
                broker_id=BrokerId(1),
                cluster_id=CLUSTER_ID,
                fetch_offset=Offset(0),
                last_fetched_epoch=LeaderEpoch(-1),
            )
        )
        stream = ControllerStub(channel).MetadataStream(request, timeout=DEADLINE_S)
        fenced = []
        for message in stream:
            for batch in read_batches(message.records):
                fenced += [
                    item.record.fenced
                    for _, item in batch.data_records
                    if isinstance(item.record, BrokerRegistrationChangeRecord)
                ]
            if fenced == [-1, 1]:
                break
        stream.cancel()

    assert fenced == [-1, 1]


def test_a_broker_that_was_down_while_the_controller_was_wiped_is_told(process: Process) -> None:
    process.configure(metadata_max_idle_interval_ms="0")
    process.start()
    process.register(1, "A1")
    process.stop(signal.SIGKILL)
    log = MetadataLog.open(process.metadata_dir, is_copy=True)
    last = list(read_batches(log.read(0)))[-1]
    log.close()
    shutil.rmtree(process.metadata_dir)
    format_dir(process.metadata_dir)
    process.start()
    # The new log goes as far as the old one, with the same epoch.
    for broker in (1, 2, 3):
        process.register(broker, f"A{broker}")

    with grpc.insecure_channel(f"127.0.0.1:{process.port}") as channel:
        request = requests.MetadataStreamRequest(
            broker_id=BrokerId(1),
            cluster_id=CLUSTER_ID,
            fetch_offset=Offset(last.last_offset + 1),
            last_fetched_epoch=LeaderEpoch(last.epoch),
            last_fetched_crc=last.crc,
        )
        stream = ControllerStub(channel).MetadataStream(to_proto(request), timeout=DEADLINE_S)
        told = [message.HasField("diverging_end_offset") for message in stream]

    assert told == [True]


def test_an_idle_controller_writes_no_ops(process: Process) -> None:
    process.configure(metadata_max_idle_interval_ms="20")
    process.start()
    deadline = time.monotonic() + DEADLINE_S
    first = process.call("DescribeQuorum", pb.DescribeQuorumRequest()).high_watermark
    while process.call("DescribeQuorum", pb.DescribeQuorumRequest()).high_watermark < first + 3:
        assert time.monotonic() < deadline
    process.stop(signal.SIGTERM)

    assert process.log()[0][-1] == NoOpRecord()


def test_malformed_requests_are_refused_with_one_line(process: Process) -> None:
    process.start()

    with pytest.raises(grpc.RpcError) as short_id:
        process.call("BrokerRegistration", pb.BrokerRegistrationRequest(incarnation_id=b"x"))
    with (
        pytest.raises(grpc.RpcError) as other_cluster,
        grpc.insecure_channel(f"127.0.0.1:{process.port}") as channel,
    ):
        list(ControllerStub(channel).MetadataStream(pb.MetadataStreamRequest(), timeout=5))

    assert short_id.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert short_id.value.details() == "field incarnation_id has 1 bytes where an id has 16"
    assert other_cluster.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert "INCONSISTENT_CLUSTER_ID" in other_cluster.value.details()


def test_health_says_whether_it_leads(process: Process) -> None:
    command = [sys.executable, "-m", "controller", "--health", "-c", str(process.config)]
    down = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30)
    process.start()
    up = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30)

    assert (down.returncode, up.returncode) == (1, 0)
    assert "does not respond" in down.stdout
    assert up.stdout == f"controller 100 at 127.0.0.1:{process.port} is active in epoch 1\n"


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "[::]", "0.0.0.0", ""])
def test_health_is_asked_directly_whatever_the_listener_and_the_proxies(
    process: Process, host: str
) -> None:
    reached = "[::1]" if "::" in host else "127.0.0.1"
    process.configure(
        listeners=f"CONTROLLER://{host}:{process.port}",
        controller_quorum_voters=f"{NODE_ID}@{reached}:{process.port}",
    )
    process.reached_at = reached
    process.start()
    proxies = {f"{kind}_proxy": "http://127.0.0.1:9" for kind in ("http", "https", "grpc", "all")}
    variables = {**os.environ, **proxies, **{k.upper(): v for k, v in proxies.items()}}
    command = [sys.executable, "-m", "controller", "--health", "-c", str(process.config)]

    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=30, env=variables
    )

    expected = f"controller 100 at {reached}:{process.port} is active in epoch 1\n"
    assert (done.stdout, done.returncode) == (expected, 0)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"node_id": "x"}, "node.id"),
        ({"process_roles": "king"}, "process.roles"),
        ({"broker_session_timeout_ms": "-1"}, "broker.session.timeout.ms"),
        ({"node_id": "7", "controller_quorum_voters": "7@127.0.0.1:1"}, "Stored node id 100"),
        ({"listeners": "CONTROLLER://no.such.host.invalid:9093"}, "no.such.host.invalid"),
        ({"log_dirs": "/nonexistent/jbodlab"}, "meta.properties"),
    ],
)
def test_what_cannot_start_says_so_in_one_line(
    process: Process, settings: dict[str, str], named: str
) -> None:
    process.configure(**settings)

    lines = process.refused()

    assert len(lines) == 1
    assert named in lines[0]


def test_a_taken_port_is_named(process: Process) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", process.port))
        taken.listen()

        lines = process.refused()

    assert len(lines) == 1
    assert str(process.port) in lines[0]


def test_a_second_controller_on_the_same_directory_is_refused(
    process: Process, tmp_path: Path
) -> None:
    process.start()
    (tmp_path / "second").mkdir()
    with Process(tmp_path / "second") as second:
        second.metadata_dir = process.metadata_dir
        second.configure()

        lines = second.refused()

    assert len(lines) == 1
    assert "Failed to acquire lock on file .lock" in lines[0]


def test_unknown_keys_get_one_warning_each(process: Process) -> None:
    process.configure(some_key="1", another_key="2")
    process.start()
    process.stop(signal.SIGINT)

    warnings = [line for line in process.stderr().splitlines() if "WARNING" in line]
    assert len(warnings) == 2
    assert "another.key" in warnings[0]
    assert "some.key" in warnings[1]


def test_a_lost_metadata_directory_ends_the_process(process: Process) -> None:
    process.configure(metadata_max_idle_interval_ms="100")
    process.start()
    assert process.process is not None
    log = process.metadata_dir / "__cluster_metadata-0" / "00000000000000000000.log"
    # From now on no file of the process may grow beyond this: its next append fails in the middle.
    limit = log.stat().st_size + 100
    resource.prlimit(process.process.pid, resource.RLIMIT_FSIZE, (limit, limit))

    assert process.process.wait(DEADLINE_S) == 1
    process.process = None
    last = process.stderr().splitlines()[-1]
    assert f"{log.parent} went offline: [Errno {errno.EFBIG}]" in last
    # A batch that it left torn is cut when it comes back.
    process.start()


def test_a_full_metadata_disk_ends_the_start_with_one_line_and_harms_nothing(
    process: Process,
) -> None:
    process.start()
    epoch = process.register(1, "A1")
    process.heartbeat(1, epoch)
    process.stop(signal.SIGKILL)
    before = process.log()[1]

    for _ in range(2):
        # No file may grow: as on a disk that is full when the controller comes back.
        refused = subprocess.run(
            ["sh", "-c", f"ulimit -f 0; exec {sys.executable} -m controller -c {process.config}"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert refused.returncode == 1
        assert f"[Errno {errno.EFBIG}]" in refused.stderr.splitlines()[-1]
        assert "Traceback" not in refused.stderr

    process.start()
    assert process.heartbeat(1, epoch).is_caught_up
    process.stop(signal.SIGTERM)
    assert process.log()[1].cluster.brokers == before.cluster.brokers

"""Records, groups, offsets and configs on a cluster of our own processes: what a user sees."""

from __future__ import annotations

import json
import signal
import time

import pytest
from confluent_kafka import Producer

from jbodlab.vocabulary.ids import GROUP_METADATA_TOPIC
from tests.cluster.group_members import Librdkafka
from tests.cluster.group_stage import GROUP_SETTINGS, committed
from tests.cluster.harness import wait_for
from tests.cluster.scenes import Stage, Stages
from tests.command_lines import CommandLines, started

pytestmark = pytest.mark.cluster


@pytest.fixture
def group_stage(stages: Stages) -> Stage:
    """The brokers of the other scenes with groups."""
    return stages.of(settings=GROUP_SETTINGS)


def test_what_is_produced_is_consumed_and_a_group_goes_on_where_it_was(group_stage: Stage) -> None:
    with group_stage.scene() as scene:
        scene.create("orders", 1, 3)
        lines = CommandLines(scene.cluster.bootstrap)

        produce = "records produce orders --key-separator :"
        written = lines.seen(produce, text="a:1\nb:2\nc:3:4\r\n:\nd:5\ne:6\n")
        assert written == "! 6 records produced to orders\n"
        assert lines.seen(produce, text="f:7\nno key\nnever:8\n") == (
            "! 1 record produced to orders\n"
            "! jbodlab: line 2: expected KEY:VALUE, got 'no key'\n"
            "exit 1\n"
        )

        consume = "records consume orders"
        assert lines.seen(f"{consume} --max 4 --key-separator =") == (
            "a=1\nb=2\nc=3:4\n=\n! 4 records\n"
        )
        assert lines.seen(f"{consume} --from 5 --timeout 1s") == "6\n7\n! 2 records\n"
        assert lines.seen(f"{consume} --from end --timeout 500ms") == "! 0 records\n"
        assert lines.seen(f"{consume} --group readers --max 2") == "1\n2\n! 2 records\n"
        assert lines.seen(f"{consume} --group readers --max 1") == "3:4\n! 1 record\n"
        assert committed(scene.cluster, "readers", "orders") == {0: 3}


def test_json_has_every_field_and_base64_where_bytes_are_not_a_text(group_stage: Stage) -> None:
    with group_stage.scene() as scene:
        scene.create("bytes", 1, 3)
        lines = CommandLines(scene.cluster.bootstrap)
        now_ms = int(time.time() * 1000)
        producer = Producer({"bootstrap.servers": scene.cluster.bootstrap, "log_level": 0})
        producer.produce(
            "bytes", b"\xff\x00", b"\xc3\xa9", timestamp=now_ms, headers=[("h", b"\xfe")]
        )
        producer.produce("bytes", None, None, timestamp=now_ms + 1)
        assert producer.flush(30) == 0

        code, out, _ = lines.run("records consume bytes --max 2 --timeout 30s --output json")

        assert code == 0
        assert [json.loads(line) for line in out.splitlines()] == [
            {
                "topic": "bytes",
                "partition": 0,
                "offset": 0,
                "timestamp": now_ms,
                "key": "é",
                "key_encoding": "text",
                "value": "/wA=",
                "value_encoding": "base64",
                "headers": [{"name": "h", "value": "/g==", "value_encoding": "base64"}],
            },
            {
                "topic": "bytes",
                "partition": 0,
                "offset": 1,
                "timestamp": now_ms + 1,
                "key": None,
                "key_encoding": None,
                "value": None,
                "value_encoding": None,
                "headers": [],
            },
        ]


def test_records_that_are_not_acknowledged_are_counted(group_stage: Stage) -> None:
    with group_stage.scene() as scene:
        scene.create("small", 1, 3, max_message_bytes="1000")
        lines = CommandLines(scene.cluster.bootstrap)

        seen = lines.seen(
            "records produce small --property linger.ms=0 --property batch.num.messages=1",
            text=f"short\n{'x' * 5_000}\n",
        )

        assert seen == (
            "! 1 record produced to small\n"
            "! jbodlab: 1 of 2 records was not acknowledged: "
            "Message size too large\n"
            "exit 1\n"
        )


def test_offsets_are_set_only_while_a_group_has_no_members(group_stage: Stage) -> None:
    with group_stage.scene() as scene:
        scene.create("orders", 2, 3)
        lines = CommandLines(scene.cluster.bootstrap)
        for partition, count in ((0, 5), (1, 3)):
            produce = f"records produce orders --partition {partition}"
            assert lines.run(produce, text="x\n" * count)[0] == 0
        reset = "groups reset readers --topic orders"

        assert lines.seen(f"{reset} --to earliest") == (
            "TOPIC   PARTITION  OLD OFFSET  NEW OFFSET\n"
            "orders          0  -                    0\n"
            "orders          1  -                    0\n"
            "! jbodlab: group readers: it does not exist: create it with 2 offsets? "
            "Confirm with --yes\n"
            "exit 1\n"
        )
        assert lines.seen(f"{reset} --to 4 --yes") == (
            "TOPIC   PARTITION  OLD OFFSET  NEW OFFSET\n"
            "orders          0  -                    4\n"
            "orders          1  -                    3\n"
        )
        assert lines.seen("groups list") == "GROUP    TYPE     STATE\nreaders  classic  empty\n"
        assert lines.seen("groups describe readers") == (
            "group readers: empty, 0 members, coordinator broker N\n"
            "TOPIC   PARTITION  OFFSET  END  LAG  MEMBER  HOST\n"
            "orders          0       4    5    1  -       -\n"
            "orders          1       3    3    0  -       -\n"
        )
        assert lines.seen("groups reset new --topic orders --to -1 --yes") == (
            "! jbodlab: group 'new' has no committed offset to shift\nexit 1\n"
        )
        code, out, err = lines.run(f"{reset} --partition 0 --to -3 --dry-run --output json")
        expected = {"topic": "orders", "partition": 0, "old_offset": 4, "new_offset": 1}
        assert (code, json.loads(out), err) == (0, [expected], "dry run: nothing was changed\n")
        assert committed(scene.cluster, "readers", "orders") == {0: 4, 1: 3}

        member = Librdkafka(scene.cluster.bootstrap, "orders", "readers")
        try:
            wait_for(
                "both partitions", lambda: member.poll() is None or len(member.assigned()) == 2
            )
            refused = "! jbodlab: group 'readers' has 1 member (stable): stop them first\nexit 1\n"
            assert lines.seen(f"{reset} --to latest --yes") == refused
            assert lines.seen("groups delete readers --yes") == refused
            assert lines.seen("groups describe readers").splitlines()[2:] == [
                "orders          0       4    5    1  MEMBER  /127.0.0.1",
                "orders          1       3    3    0  MEMBER  /127.0.0.1",
            ]
        finally:
            member.close()
        wait_for("no member", lambda: "empty" in lines.run("groups describe readers")[1])
        assert lines.seen("groups delete reader --yes") == (
            "! jbodlab: unknown group 'reader' (did you mean readers?)\nexit 1\n"
        )
        assert lines.seen("groups delete readers --yes") == "deleted group readers\n"
        assert lines.seen("groups describe readers") == "! unknown group 'readers'\nexit 1\n"


def test_a_group_of_the_new_protocol_is_described(group_stage: Stage) -> None:
    with group_stage.scene() as scene:
        scene.create("orders", 1, 3)
        lines = CommandLines(scene.cluster.bootstrap)
        member = Librdkafka(scene.cluster.bootstrap, "orders", "new", "consumer")
        try:
            wait_for("the partition", lambda: member.poll() is None or member.assigned())
            code, out, _ = lines.run("groups describe new --output json")
        finally:
            member.close()

        (group,) = json.loads(out)
        (one,) = group["members"]
        assert code == 0
        assert (group["type"], group["state"]) == ("consumer", "stable")
        assert one["partitions"] == [{"topic": "orders", "partition": 0}]
        assert group["offsets"] == [
            {
                "topic": "orders",
                "partition": 0,
                "offset": None,
                "end_offset": 0,
                "lag": None,
                "member": one["member"],
            }
        ]


def test_offsets_name_what_they_cannot_get_and_an_expression_matches_no_internal_topic(
    group_stage: Stage,
) -> None:
    with group_stage.scene() as scene:
        scene.create("orders", 1, 3)
        lines = CommandLines(scene.cluster.bootstrap)
        assert lines.run("records produce orders", text="x\ny\n")[0] == 0
        assert lines.run("groups reset g --topic orders --to earliest --yes")[0] == 0
        assert GROUP_METADATA_TOPIC in scene.cluster.admin().list_topics(timeout=30).topics

        head = "TOPIC   PARTITION  OFFSET  TIMESTAMP\n"
        assert lines.seen("offsets orders") == f"{head}orders          0       2  -\n"
        assert lines.seen("offsets orders --at 2000-01-01") == (
            "TOPIC   PARTITION  OFFSET      TIMESTAMP\norders          0       0  TIME\n"
        )
        assert lines.seen("offsets --matching .* --at 2100-01-01 --output json") == (
            '[\n  {\n    "topic": "orders",\n    "partition": 0,\n    "offset": null,\n'
            '    "timestamp": null\n  }\n]\n'
        )
        assert lines.seen("offsets --matching __consumer_offsets") == (
            "! jbodlab: no topic matches '__consumer_offsets'\nexit 1\n"
        )
        assert lines.seen("offsets ordres") == (
            "! jbodlab: unknown topic 'ordres' (did you mean orders?)\nexit 1\n"
        )


def test_a_partition_without_a_leader_fails_alone(group_stage: Stage) -> None:
    with group_stage.scene() as scene:
        topic = scene.topic_at([[1], [2]])
        lines = CommandLines(scene.cluster.bootstrap)
        dead = scene.cluster.broker(1).log_dir_of(topic, 0).path
        scene.break_and_wait("chmod000", 1, dead)
        wait_for("no leader", lambda: scene.cluster.leaders(topic)[0] != 1)

        code, out, err = lines.run(f"offsets {topic} --output json")

        assert code == 1
        (one,) = json.loads(out)
        assert (one["partition"], one["offset"]) == (1, 0)
        assert err.startswith(f"cannot get the offset of {topic}-0: ")
        assert err.count("\n") == 1

        code, out, err = lines.run(f"groups reset g --topic {topic} --to latest --yes")
        assert (code, out) == (1, "")
        assert err.startswith(f"jbodlab: cannot get the offset of {topic}-0: ")


def test_configs_are_set_shown_and_deleted(group_stage: Stage) -> None:
    with group_stage.scene() as scene:
        scene.create("orders", 1, 3)
        lines = CommandLines(scene.cluster.bootstrap)
        change = ("--set", "retention.ms=70000", "--set", "cleanup.policy=compact,delete")
        assert lines.seen("configs alter topic orders", *change) == (
            "topic orders: retention.ms=70000\ntopic orders: cleanup.policy=compact,delete\n"
        )

        def described() -> list[list[str]]:
            rows = lines.run("configs describe topic orders")[1].splitlines()
            return [row.split() for row in rows if row.endswith("dynamic topic")]

        topic = ["dynamic", "topic"]
        policy, retention = ["cleanup.policy", "compact,delete"], ["retention.ms", "70000"]
        wait_for("both", lambda: described() == [[*policy, *topic], [*retention, *topic]])
        assert lines.run("configs alter topic orders --delete retention.ms")[0] == 0
        wait_for("one", lambda: described() == [[*policy, *topic]])
        assert lines.seen("configs alter topic orders --set retentionms=5") == (
            "! jbodlab: unknown key 'retentionms' (did you mean retention.ms?)\nexit 1\n"
        )

        assert lines.run("configs alter cluster --set log.retention.bytes=123456")[0] == 0

        def everywhere() -> list[list[str]]:
            rows = lines.run("configs describe cluster")[1].splitlines()
            return [row.split() for row in rows]

        # The minimum of in-sync replicas is there from the first start on.
        default = ["dynamic", "default", "broker"]
        bytes_kept, in_sync = ["log.retention.bytes", "123456"], ["min.insync.replicas", "1"]
        both = [["NAME", "VALUE", "SOURCE"], [*bytes_kept, *default], [*in_sync, *default]]
        wait_for("it", lambda: everywhere() == both)
        assert "123456" in lines.run("configs describe broker 1")[1]
        code, _, err = lines.run("configs alter cluster --set log.retention.ms=x")
        assert (code, "unknown key" in err, "log.retention.ms" in err) == (1, False, True)
        assert lines.run("configs alter cluster --delete log.retention.bytes")[0] == 0
        wait_for("the minimum alone", lambda: everywhere() == [both[0], both[2]])
        assert lines.seen("configs describe broker 9") == (
            "! jbodlab: broker 9 is not a live broker of the cluster\nexit 1\n"
        )

        group = "configs alter group readers --set consumer.session.timeout.ms=50000"
        assert lines.run(group)[0] == 0
        wait_for("it", lambda: "50000" in lines.run("configs describe group readers")[1])


def test_ctrl_c_ends_a_consumer_and_it_leaves_its_group(group_stage: Stage) -> None:
    with group_stage.scene() as scene:
        scene.create("orders", 1, 3)
        lines = CommandLines(scene.cluster.bootstrap)

        def described() -> str:
            return lines.run("groups describe readers")[1]

        at = ("--bootstrap-server", scene.cluster.bootstrap)
        with started("records", "consume", "orders", "--group", "readers", *at) as process:
            wait_for("a member", lambda: described().startswith("group readers: stable"))
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
        assert (process.returncode, out) == (130, "")
        assert err == "0 records\njbodlab: interrupted\n"
        # At once, and not when the session times out.
        assert described().startswith("group readers: empty, 0 members")


def test_a_consumer_whose_reader_has_left_ends_with_141(group_stage: Stage) -> None:
    with group_stage.scene() as scene:
        scene.create("orders", 1, 3)
        lines = CommandLines(scene.cluster.bootstrap)
        assert lines.run("records produce orders", text="x\n" * 10)[0] == 0
        at = ("--bootstrap-server", scene.cluster.bootstrap)
        with started("records", "consume", "orders", *at) as process:
            assert process.stdout is not None
            process.stdout.close()
            code = process.wait(timeout=30)
        assert code == 141

"""The live page of a cluster of Apache Kafka: what any client may know, and nothing made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.cluster import wait_for
from tests.cluster.harness import Cluster
from tests.cluster.live_page import served
from tests.cluster.moving import fill
from tests.cluster.staying import Staying

pytestmark = [
    pytest.mark.soak,
    pytest.mark.cluster,
    pytest.mark.kafka,
    pytest.mark.xdist_group("a cluster of Apache Kafka"),
]


def test_the_page_shows_what_apache_kafka_tells(kafkas_cluster: Cluster, tmp_path: Path) -> None:
    topic = "page-1.of_kafka"
    kafkas_cluster.create_topic(topic, 3, 2)
    fill(kafkas_cluster, topic, 1, 3)
    try:
        with served(Staying(tmp_path), "--bootstrap-server", kafkas_cluster.bootstrap) as page:
            wait_for(
                "a page on which nothing is wrong",
                lambda: not page.state()["sections"]["problems"],
                last_seen=lambda: page.state()["sections"]["problems"],
            )
            wait_for(
                "the topic on the page",
                lambda: any(
                    row["topic"] == topic for row in page.state()["sections"]["partitions"]["shown"]
                ),
            )
            sections = page.state()["sections"]
            brokers = sections["brokers"]
            assert [broker["state"] for broker in brokers] == ["serves"] * 3
            dirs = [one for broker in brokers for one in broker["log_dirs"]]
            paths = {str(path) for one in kafkas_cluster.brokers for path in one.paths}
            assert {one["path"] for one in dirs} == paths
            assert all(one["state"] == "online" and one["total"] > 0 for one in dirs)
            assert sum(one["bytes"] for one in dirs) > 0
            assert len(sections["cluster"]["not_known"]) == 3
            assert not sections["cluster"]["may_break"]
            replicas = page.get(f"/v1/topics/{topic}/0")["replicas"]
            assert all(one["directory"][-2:] in ("/1", "/2", "/3") for one in replicas)
            silent = kafkas_cluster.broker(3)
            silent.freeze()
            try:
                wait_for(
                    "a broker that does not answer",
                    lambda: page.state()["sections"]["brokers"][2]["state"] == "SILENT",
                )
            finally:
                silent.thaw()
            wait_for(
                "the broker again",
                lambda: page.state()["sections"]["brokers"][2]["state"] == "serves",
            )
    finally:
        for future in kafkas_cluster.admin().delete_topics([topic]).values():
            future.result(30)

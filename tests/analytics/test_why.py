from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

import pytest

from jbodlab.metadata.records.cluster_records import UnregisterBrokerRecord
from jbodlab.metadata.records.config_records import NoOpRecord
from jbodlab.metadata.records.topic_records import PartitionChangeRecord
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId
from tests.analytics.builders import LogBuilder, log_of_one_record
from tests.analytics.commands import why as main
from tests.analytics.random_records import RandomHistory
from tests.analytics.stories import batches


@pytest.fixture
def log(tmp_path: Path) -> LogBuilder:
    """Broker 1 is registered, and fenced."""
    log = LogBuilder(tmp_path / "meta")
    for batch in batches("register 1 1a\nbroker 1 fenced=1"):
        log.append(*batch)
    return log


def ask(log: LogBuilder, *arguments: str) -> int:
    return main([*arguments, "--input", str(log.directory)])


def test_a_log_that_begins_at_a_snapshot_is_told_from_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = LogBuilder(tmp_path / "meta", segment_bytes=2048)
    RandomHistory(log, seed=3).run(60)
    log.snapshot()
    base = log.log.end_offset
    topic = next(one for one in log.loader.image.topics.by_id.values() if one.partitions)
    index = next(iter(topic.partitions))
    name = f"{topic.name}-{index}"
    log.append(NoOpRecord())
    log.append(
        PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, leader=BrokerId(-1))
    )
    first, *_ = sorted(log.directory.glob("*.log"))
    first.unlink()

    assert ask(log, "partition", name) == 0
    assert f"leader    none since offset {base + 1} " in capsys.readouterr().out
    assert ask(log, "partition", name, "--at", str(base)) == 0
    assert f"offset {base - 1} " in capsys.readouterr().out
    assert ask(log, "partition", name, "--at", str(base - 2)) == 1
    assert f"outside of the log, {base - 1} to {base + 1}" in capsys.readouterr().err
    for path in log.directory.glob("*.log"):
        path.unlink()
    assert ask(log, "partition", name) == 0

    said = capsys.readouterr().out
    assert f"offset {base - 1}" in said
    assert "SNAPSHOT  leader=" in said


def test_a_damaged_log_is_answered_from_what_is_whole(
    log: LogBuilder, capsys: pytest.CaptureFixture[str]
) -> None:
    log.append(UnregisterBrokerRecord(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(0)))
    log.close()
    (path,) = log.directory.glob("*.log")
    path.write_bytes(path.read_bytes()[:-5])

    assert ask(log, "broker", "1") == 0

    said = capsys.readouterr()
    assert "fenced since offset 1" in said.out
    assert said.err.startswith("jbodlab: the log has problems: ")


def test_what_reports_name_as_the_log_answers_also_archives_and_copies(
    log: LogBuilder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log.close()
    assert ask(log, "broker", "1") == 0
    expected = capsys.readouterr().out
    (segment,) = log.directory.glob("*.log")
    packed, zipped = tmp_path / "a.tar.gz", tmp_path / "b.zip"
    with tarfile.open(packed, "w:gz") as tar:
        tar.add(segment, f"n1/__cluster_metadata-0/{segment.name}")
    with zipfile.ZipFile(zipped, "w") as file:
        file.writestr(segment.name, segment.read_bytes()[:-5])

    for named in (
        [str(packed)],
        [f"{packed}!n1/__cluster_metadata-0"],
        [f"{zipped}!", str(packed)],
    ):
        arguments = [argument for one in named for argument in ("--input", one)]
        assert main(["broker", "1", *arguments]) == 0
        assert capsys.readouterr() == (expected, "")
    assert main(["broker", "1", "--input", f"{packed}!n2"]) == 1
    assert capsys.readouterr().err == f"jbodlab: input {packed}!n2 holds no metadata log\n"


def test_logs_of_several_clusters_are_not_taken_for_one(
    log: LogBuilder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log.close()
    other = log_of_one_record(tmp_path / "other").parent
    for root, name in ((log.root, "A"), (other, "B")):
        (root / "meta.properties").write_text(f"cluster.id={name}\n")

    assert main(["broker", "1", "--input", str(log.root), "--input", str(other)]) == 1
    assert "hold logs of 2 clusters" in capsys.readouterr().err

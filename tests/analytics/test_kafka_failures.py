from __future__ import annotations

import pytest

from tests.analytics.shared import Replayed, directory_ids, journal, read_table
from tests.analytics.small_logs import picked

pytestmark = pytest.mark.process


def test_every_injected_failure_is_told_with_its_partitions_and_times(disks: Replayed) -> None:
    folder, output, printed = disks
    ids, broken = directory_ids(folder), journal(folder, "break")

    failures = read_table(output, "directory_failures")

    assert len(failures) == len(broken) == 3
    for entry, row in zip(broken, failures, strict=True):
        assert (row["broker"], row["directory"]) == (
            entry["broker"],
            ids[entry["broker"], entry["dir"]],
        )
        assert row["partitions"] == sorted(entry["replicas"])
        assert f"directory {row['directory']} of broker {row['broker']} went offline" in printed
        assert row["partitions_touched"] == len(entry["replicas"])
        noticed_ms = row["detected_time"].timestamp() * 1000  # type: ignore[attr-defined]
        assert 0 <= noticed_ms - entry["ms"] < 6000
        assert (row["last_leader_in_same_batch"], row["time_to_last_leader_ms"]) == (True, None)
    # The first two were healed, and their brokers restarted.
    closed = ("closed", "registered")
    assert picked(failures, "state", "closed_by") == [closed, closed, ("open", None)]
    assert [row["full_isr_offset"] is None for row in failures] == [False, False, True]
    (moved,) = journal(folder, "move")
    columns = ("topic", "partition", "broker", "to_directory", "kind", "outcome")
    to = ids[moved["broker"], moved["dir"]]
    assert picked(read_table(output, "moves"), *columns) == [
        (moved["topic"], moved["partition"], moved["broker"], to, "directory", "swapped")
    ]
    assert read_table(output, "features")[2]["level"] == 30
    (epoch,) = read_table(output, "controller_epochs")
    assert (epoch["epoch"], epoch["controller"], epoch["from_offset"]) == (1, 100, 0)
    assert epoch["records"] == len(read_table(output, "records"))


def test_administration_is_told_with_settings_moves_and_controllers(admin: Replayed) -> None:
    output = admin.output

    configs = read_table(output, "configs")
    now = [row for row in configs if row["valid_to_offset"] is None]
    assert set(picked(now, "resource_type", "resource_name", "name", "value")) == {
        ("topic", "t1", "cleanup.policy", "compact"),
        ("broker", "1", "log.cleaner.threads", "2"),
    }
    was = [row for row in configs if row["name"] == "retention.ms" and row not in now]
    assert picked(was, "resource_name", "value") == [("t1", "3600000")]
    epochs = read_table(output, "controller_epochs")
    assert [row["controller"] for row in epochs] == [100] * len(epochs)
    assert len(epochs) == 2
    sessions = read_table(output, "broker_sessions")
    assert "unregistered" in {row["ended_by"] for row in sessions if row["broker"] == 3}
    assert read_table(output, "directory_failures") == []

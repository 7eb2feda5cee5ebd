"""Values that `min.insync.replicas` has where a log does not say."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from analytics.ask.assumptions import assumed_min_isr
from analytics.errors import ReplayInputError
from analytics.rare.min_insync import AssumedMinIsr, min_isr_in_force
from jbodlab.cli.command import add, commands
from tests.analytics.builders import LogBuilder
from tests.analytics.commands import what_if, why
from tests.analytics.stories import batches


def assumed(*arguments: str) -> AssumedMinIsr:
    parser = argparse.ArgumentParser()
    add(parser, commands()["why broker"].arguments)
    return assumed_min_isr(parser.parse_args(["1", *arguments]))


@pytest.mark.parametrize(
    ("topic", "cluster", "found"),
    [("3", "2", (3, "topic")), ("x", "2", (2, "cluster")), (None, None, (1, "assumed"))],
)
def test_a_value_that_is_no_number_counts_as_not_set(
    topic: str | None, cluster: str | None, found: tuple[int, str]
) -> None:
    assert min_isr_in_force(topic, cluster, AssumedMinIsr()) == found


def test_kafkas_default_counts_where_nobody_says_anything() -> None:
    assert assumed() == AssumedMinIsr(1, "Kafka's default")


def test_a_brokers_file_counts_and_an_option_before_it(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("node.id=1\nmin.insync.replicas = 2\n")

    assert assumed("--config", str(file)) == AssumedMinIsr(2, str(file))
    both = assumed("--config", str(file), "--min-insync-replicas", "3")
    assert both == AssumedMinIsr(3, "--min-insync-replicas")
    file.write_text("node.id=1\n")
    assert assumed("--config", str(file)).value == 1
    assert "does not set it" in assumed("--config", str(file)).source


@pytest.mark.parametrize("text", ["0", "-1", "two", "", "3000000000"])
def test_what_is_no_number_of_replicas_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"min.insync.replicas={text}\n")

    for given in (f"--config={file}", f"--min-insync-replicas={text}"):
        with pytest.raises(ReplayInputError, match="expected a number of replicas"):
            assumed(given)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReplayInputError, match=r"cannot read .*gone: No such file"):
        assumed("--config", str(tmp_path / "gone"))


def test_questions_say_what_they_assume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = LogBuilder(tmp_path)
    for batch in batches(
        "register 1 1a; register 2 2a; topic orders; partition 0 replicas=1,2 directories=1a,2a"
    ):
        log.append(*batch)
    log.close()
    source = ["--input", str(log.directory)]

    assert what_if(["--fail-broker", "2", *source]) == 0
    said = capsys.readouterr().out
    assert "assumed                 min.insync.replicas 1 (Kafka's default) for 1 topic" in said
    assert what_if(["--fail-broker", "2", *source, "--min-insync-replicas", "2"]) == 2
    said = capsys.readouterr().out
    assert "orders-0  isr [1, 2] -> [1], min.insync.replicas 2" in said
    assert why(["partition", "orders-0", *source, "--min-insync-replicas", "2"]) == 0
    said = capsys.readouterr().out
    assert "min.insync.replicas 2 (assumed: --min-insync-replicas)" in said or "nothing" in said

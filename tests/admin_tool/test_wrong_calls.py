"""Wrong calls of topics, dirs and reassign: exit code 2, one line, and where to read on."""

from __future__ import annotations

import pytest

from jbodlab.cli.program import main

CALLS = {
    "topics describ": "unknown command 'topics describ' (did you mean describe?)",
    "topics create": "missing TOPIC",
    "topics create a --partition 3": "unknown option --partition (did you mean --partitions?)",
    "topics create a --partitions 0": "--partitions: expected a number above 0, got '0'",
    "topics create a --config b": "--config: expected KEY=VALUE, got 'b'",
    "topics create a --assignment 1:2 --partitions 3": (
        "--assignment excludes --partitions and --replication-factor"
    ),
    "topics delete": "missing TOPIC or --matching",
    "topics delete a --matching a": "TOPIC and --matching exclude each other",
    "topics delete --matching (": (
        "--matching: invalid expression '(': missing ), unterminated subpattern at position 0"
    ),
    "topics alter a": "missing --partitions",
    "topics describe a --id b": "--id excludes TOPIC and --matching",
    "topics describe --only unavailble": (
        "--only: unknown value 'unavailble' (did you mean unavailable?); expected one of "
        "under-replicated, unavailable, under-min-isr, at-min-isr"
    ),
    "topics list --cluster x": "--cluster and --bootstrap-server exclude each other",
    "dirs list --interval 1": "--interval needs --watch",
    "dirs list --brokers 1,x": "--brokers: expected broker ids such as 1,2, got '1,x'",
    "dirs list --brokers 1,1": "--brokers: a broker id occurs twice in '1,1'",
    "dirs list --watch --interval x": "--interval: expected at least 0.1 seconds, got 'x'",
    "dirs revive": "missing DIR",
    "dirs revive broker-1": "DIR: expected a directory such as broker-1/1, got 'broker-1'",
    "dirs revive /mnt/d1": "DIR: expected broker-1/2 or broker-1:/PATH, got '/mnt/d1'",
    "dirs move orders --to broker-1/2": (
        "PARTITION: expected a partition such as orders-0, got 'orders'"
    ),
    "dirs move orders-0": "missing --to",
    "dirs drain broker-1/1 --timeout 5": "--timeout needs --wait",
    "dirs balance --cancel --wait": "--cancel excludes --dry-run and --wait",
    "reassign execute": "missing FILE",
    "reassign execute f --throttle fast": "--throttle: expected a number above 0, got 'fast'",
    "reassign verify f g": "unexpected argument 'g'",
}


@pytest.mark.parametrize("words", CALLS)
def test_a_wrong_call_is_one_line_with_a_suggestion(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words.split(), "--bootstrap-server", "127.0.0.1:1"]) == 2

    noun, verb, *_ = words.split()
    program = f"jbodlab {noun}" if verb == "describ" else f"jbodlab {noun} {verb}"
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"{program}: {CALLS[words]}\ntry `{program} --help`\n"


@pytest.mark.parametrize("noun", ["topics", "dirs", "reassign"])
def test_the_help_of_every_verb_fits_a_screen_and_has_examples(
    noun: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([noun, "--help"]) == 0
    verbs = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line[:2] == "  "]
    assert verbs
    for verb in verbs:
        assert main([noun, verb, "--help"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) <= 40, (noun, verb)
        assert any(line.startswith(f"  jbodlab {noun} {verb}") for line in lines)

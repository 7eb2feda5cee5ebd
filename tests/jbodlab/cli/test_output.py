"""Results on stdout, everything else on stderr."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from jbodlab.cli.output import DeclinedError, Output, table


class Streams:
    def __init__(self, *, is_json: bool = False) -> None:
        self.now_s = 100.0
        self.out, self.err = io.StringIO(), io.StringIO()
        self.output = Output(is_json=is_json, out=self.out, err=self.err, now_s=lambda: self.now_s)

    @property
    def said(self) -> tuple[str, str]:
        return self.out.getvalue(), self.err.getvalue()


def test_a_result_is_its_text_or_its_json() -> None:
    text, as_json = Streams(), Streams(is_json=True)
    for streams in (text, as_json):
        streams.output.result({"path": Path("/d1"), "size": 1}, "1 byte in /d1")

    assert text.said == ("1 byte in /d1\n", "")
    assert json.loads(as_json.out.getvalue()) == {"path": "/d1", "size": 1}


def test_a_line_beside_json_goes_to_stderr() -> None:
    streams = Streams(is_json=True)
    streams.output.line("started")

    assert streams.said == ("", "started\n")


def test_progress_is_printed_once_a_command_has_taken_a_second() -> None:
    streams = Streams()
    streams.output.progress("1 of 3")
    streams.now_s += 1.0
    streams.output.progress("2 of 3")

    assert streams.said == ("", "2 of 3\n")


def test_nothing_is_destroyed_where_nobody_can_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    streams = Streams()

    with pytest.raises(DeclinedError, match=r"delete topic orders\? Confirm with --yes"):
        streams.output.confirm("delete topic orders?", yes=False)
    streams.output.confirm("delete topic orders?", yes=True)

    assert streams.said == ("", "")


@pytest.mark.parametrize(
    ("answer", "is_done"), [("y", True), ("YES", True), ("", False), ("n", False)]
)
def test_only_yes_is_yes(answer: str, is_done: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal(f"{answer}\n"))
    streams = Streams()
    try:
        streams.output.confirm("delete topic orders?", yes=False)
        confirmed = True
    except DeclinedError:
        confirmed = False

    assert confirmed is is_done
    assert streams.said == ("", "delete topic orders? [y/N] ")


def test_a_table_has_numbers_on_the_right() -> None:
    rows = [("orders", 3, None), ("a", 12, (1, 2))]

    assert table(("TOPIC", "COUNT", "ISR"), rows).splitlines() == [
        "TOPIC   COUNT  ISR",
        "orders      3  -",
        "a          12  1,2",
    ]


def test_a_command_that_goes_on_prints_an_object_a_line() -> None:
    streams = Streams(is_json=True)
    streams.output.json_line({"server": "broker-1", "line": "a"})
    streams.output.json_line({"server": "broker-1", "line": "b"})

    assert [json.loads(line)["line"] for line in streams.out.getvalue().splitlines()] == ["a", "b"]

"""The answers of `jbodlab why` about Kafka's logs stay as they are, word for word."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analytics.commands import why

LOGS = Path(__file__).parents[1] / "fixtures" / "kafka-metadata-logs"
GOLDEN = (Path(__file__).parent / "answers_of_kafkas_logs.txt").read_text("utf-8")
ANSWERS = [block.partition("\n") for block in GOLDEN.removeprefix("$ why ").split("\n$ why ")]


@pytest.mark.parametrize(
    ("question", "answer"), [(question, answer) for question, _, answer in ANSWERS]
)
def test_an_answer_stays_as_it_is(
    question: str, answer: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(LOGS)

    assert why(question.split()) == 0

    assert capsys.readouterr().out.rstrip() == answer.rstrip()

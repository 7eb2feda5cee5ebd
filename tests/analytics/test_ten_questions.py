"""The ten questions of the documentation, asked of a log of Apache Kafka on both engines."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from analytics.page import ten_questions
from analytics.page.ten_questions import QUESTIONS, TABLES, Question
from tests.analytics.shared import Replayed

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[2] / "docs" / "ten-questions.md"
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def answers(disks: Replayed) -> list[Rows]:
    duckdb.sql("SET TimeZone = 'UTC'")
    _open(ten_questions.OPEN_IN_DUCKDB, disks)
    return [duckdb.sql(question.duckdb).to_arrow_table().to_pylist() for question in QUESTIONS]


@pytest.fixture(scope="module")
def opened(spark: SparkSession, disks: Replayed) -> SparkSession:
    _open(ten_questions.OPEN_IN_SPARK, disks, spark=spark)
    return spark


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.text)
def test_duckdb_and_spark_give_the_same_answer(
    question: Question, answers: list[Rows], opened: SparkSession
) -> None:
    rows = opened.sql(question.spark).toArrow().to_pylist()

    assert rows == answers[QUESTIONS.index(question)]


def test_most_questions_have_an_answer_in_the_log_of_the_fixture(answers: list[Rows]) -> None:
    assert [not rows for rows in answers].count(True) <= 2


def test_the_documentation_has_the_questions_and_their_answers(answers: list[Rows]) -> None:
    text = ten_questions.document(answers)
    if os.environ.get("UPDATE_SNAPSHOTS"):
        PAGE.write_text(text, "utf-8")

    assert PAGE.read_text("utf-8") == text


def _open(snippet: str, replayed: Replayed, **names: object) -> None:
    """Run what the documentation says, on the tables of a replay."""
    exec(snippet.replace("OUT/", f"{replayed.output}/"), {"TABLES": TABLES, **names})

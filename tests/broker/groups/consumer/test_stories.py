"""Stories of consumer groups, told in text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.broker.groups.consumer.story import run_story
from tests.broker.groups.scenario import scenarios_of

FILES = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))
STORIES = [(path, title) for path in FILES for title in scenarios_of(path.read_text())]


@pytest.mark.parametrize(("path", "title"), STORIES, ids=lambda each: getattr(each, "stem", each))
def test_story(path: Path, title: str) -> None:
    text = path.read_text()
    expected = scenarios_of(text)[title].rstrip("\n") + "\n"

    happened = run_story(expected)

    if os.environ.get("JBODLAB_REWRITE_SCENARIOS"):
        path.write_text(text.replace(f"== {title}\n{expected}", f"== {title}\n{happened}"))
    assert happened == expected

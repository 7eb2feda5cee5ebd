"""Every mistake in a plan is one line that names the file, the line, the keys and the value."""

from __future__ import annotations

import pytest

from lab.plan.reader import PlanError, read
from tests.lab.plan.examples import GOOD, WRONG


def mistakes(text: str) -> list[str]:
    with pytest.raises(PlanError) as caught:
        read(text, "p.yaml")
    return str(caught.value).splitlines()


def test_the_plan_that_all_wrong_ones_are_made_of_is_right() -> None:
    assert read(GOOD, "p.yaml").name == "a disk dies"


@pytest.mark.parametrize(("change", "line"), WRONG.values(), ids=WRONG)
def test_a_wrong_plan_is_refused_with_one_line(change: tuple[str, ...], line: str) -> None:
    text = GOOD
    for before, after in zip(change[::2], change[1::2], strict=True):
        assert before in text
        text = text.replace(before, after)

    found = mistakes(text)

    assert len(found) == 1, found
    assert found[0].startswith(line) if line.endswith((" ", ", ")) else found[0] == line


def test_all_mistakes_are_told_at_once_in_the_order_of_their_lines() -> None:
    text = GOOD.replace("brokers: 3", "brokers: 0").replace("rate: 100/s", "rate: x")

    found = mistakes(text.replace("lost == 0", "lost = 0"))

    assert [line.split(":")[1] for line in found] == ["3", "7", "13"]


def test_words_that_yaml_takes_for_booleans_are_texts_as_keys() -> None:
    found = mistakes(GOOD.replace("name: a disk dies", "name: x\non: 1"))

    assert len(found) == 1
    assert found[0].startswith("p.yaml:3: on: unknown key 'on'; expected one of rehearsal, name, ")


def test_a_program_in_a_tag_is_refused() -> None:
    found = mistakes(GOOD.replace("a disk dies", "!!python/object/apply:os.system [id]"))

    assert len(found) == 1
    assert "name" in found[0]

"""What a mark says that a test needs, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from lab.cluster import engine
from lab.cluster.engine import ENGINE_VARIABLE
from lab.commands import declaring
from lab.testing.clusters import Need

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENGINE_VARIABLE, raising=False)


@pytest.mark.parametrize(
    ("wanted", "refused"),
    [
        ({"brokers": 0}, "expected brokers from 1 to 20, got 0"),
        ({"controllers": 8}, "expected controllers from 1 to 7, got 8"),
        ({"controllers": 3}, "the engine jbodlab has one controller, not 3"),
        ({"combined": True}, "a node of the engine jbodlab has one role"),
        ({"jvm_options": "-Xmx1g"}, "the engine jbodlab has no JVM for '-Xmx1g'"),
        ({"engine": "kafka:4.3.1", "combined": True, "controllers": 3}, "combined nodes are"),
        ({"engine": "kafka:4"}, "expected an engine"),
    ],
)
def test_what_no_cluster_can_be_is_refused(wanted: dict[str, Any], refused: str) -> None:
    with pytest.raises(ValueError, match=f"^{refused}"):
        Need.of(**wanted)


def test_marks_and_command_lines_have_the_same_limit_of_controllers() -> None:
    assert declaring.CONTROLLERS_MAX == engine.CONTROLLERS_MAX


def test_tests_share_a_cluster_only_where_its_nodes_are_equal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(ENGINE_VARIABLE, "kafka:4.3.1")
    one = Need.of(controllers=3)
    assert one == Need.of(controllers=3, engine="kafka:4.3.1")
    others = (Need.of(), Need.of(combined=True), Need.of(controllers=3, jvm_options="-Xmx1g"))
    assert len({one, *others}) == 4

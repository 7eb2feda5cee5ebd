"""One declaration of a setting makes its option, its argument of a mark, and its key of plans."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jbodlab.cli.parser import Parser
from lab.cluster import ClusterSpec, layout, spec
from lab.cluster.engine import ENGINE_VARIABLE, Engine, EngineError
from lab.cluster.spec import (
    SETTINGS,
    Form,
    On,
    of_mark,
    of_options,
    of_variables,
    option_of,
    spec_of,
)
from lab.commands.declaring import settings
from lab.machine.processes import own_user
from lab.plan import reader
from lab.plan.plan_file import schema

ROOT = Path(__file__).parents[3]
KAFKA = "kafka:4.3.1"
PLAN = """
rehearsal: 1
name: x
cluster: {cluster}
topics: {{t: {{}}}}
load: [{{topic: t, rate: 1/s}}]
"""
SAID: dict[str, tuple[list[str], object, object]] = {
    # Setting: words of a command line, the argument of a mark or key of a plan, what it means.
    "brokers": (["5"], 5, 5),
    "disks": (["4"], 4, 4),
    "disk_kind": (["loop"], "loop", "loop"),
    "disk_mb": (["64MiB"], "64MiB", 64),
    "uid": (["7"], None, 7),
    "engine": ([KAFKA], KAFKA, Engine.parse(KAFKA)),
    "config": (["a=b"], {"a": "b"}, {"a": "b"}),
    "jvm_options": (["-Xmx1g"], "-Xmx1g", "-Xmx1g"),
    "controllers": (["3"], 3, 3),
    "combined": ([], True, True),
    "security": (["mtls"], "mtls", "mtls"),
    "port_base": (["9000"], None, 9000),
    "advertise": (["h:1,h:2,h:3"], None, "h:1,h:2,h:3"),
    "mechanism": (["preload"], "preload", "preload"),
}


def test_each_setting_is_tried_below() -> None:
    assert list(SAID) == list(SETTINGS)


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("command", [On.UP, On.DEMO, On.OTHERS])
def test_a_setting_is_an_option_of_its_commands_and_of_no_other(name: str, command: On) -> None:
    parser = Parser("jbodlab x", "x")
    settings(parser, command.name.lower())
    words, _, meant = SAID[name]

    assert (option_of(name) in parser.option_names()) == (command in SETTINGS[name].on)
    if command in SETTINGS[name].on:
        options = parser.parse_all([option_of(name), *words])
        engine = Engine.parse(options.engine or KAFKA)
        assert of_options(options, engine) == ClusterSpec(**{"engine": engine, name: meant})


@pytest.mark.parametrize("name", [name for name, one in SETTINGS.items() if one.in_mark])
def test_a_mark_says_a_setting_by_its_name(name: str) -> None:
    _, value, meant = SAID[name]
    found = of_mark({"engine": KAFKA, name: value}, {})
    assert getattr(found, name) == meant


@pytest.mark.parametrize("name", [name for name, one in SETTINGS.items() if one.key])
def test_a_plan_says_a_setting_by_its_key_which_its_schema_has(name: str) -> None:
    group, _, key = SETTINGS[name].key.rpartition(".")
    wanted: dict[str, Any] = {key: SAID[name][1]}
    if name == "disk_mb":
        wanted["kind"] = "loop"
    plan = PLAN.format(cluster=json.dumps({group: wanted} if group else wanted))
    found = reader.read(plan, "x").cluster

    assert getattr(found, name) == SAID[name][2]
    assert key in schema()["$defs"][group.title() if group else "ClusterKeys"]["properties"]


@pytest.mark.parametrize("name", SETTINGS)
def test_the_state_file_has_every_setting_but_those_that_may_hold_secrets(
    name: str, tmp_path: Path
) -> None:
    made = ClusterSpec(**{"engine": Engine.parse(KAFKA), name: SAID[name][2]})
    ports = range(1, 1 + made.controller_count + made.brokers)
    state = layout.plan("x", tmp_path, "id", own_user(), ports, made)

    assert (spec_of(state) == made) == (name not in ("config", "uid"))


def test_a_setting_that_is_a_key_of_kafkas_is_one_declaration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = spec.Setting(
        form=Form.NUMBER, help="", properties=lambda value: {"num.io.threads": str(value)}
    )
    monkeypatch.setattr(spec, "SETTINGS", {"brokers": one})

    assert ClusterSpec(brokers=5).properties == {"num.io.threads": "5"}
    assert ClusterSpec(brokers=5, config={"num.io.threads": "1"}).properties == {
        "num.io.threads": "1"
    }
    assert ClusterSpec().properties == {}


def test_the_page_of_engines_has_the_table_of_settings() -> None:
    assert spec.table() in (ROOT / "docs" / "engines.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("wanted", "refused"),
    [
        ({"brokers": 0}, "expected brokers from 1 to 20, got 0"),
        ({"controllers": 8}, "expected controllers from 1 to 7, got 8"),
        ({"controllers": 2}, "the engine jbodlab has an odd number of controllers, not 2"),
        ({"combined": True}, "a node of the engine jbodlab has one role"),
        ({"jvm_options": "-Xmx1g"}, "the engine jbodlab has no JVM for '-Xmx1g'"),
        ({"engine": KAFKA, "combined": True, "controllers": 3}, "combined nodes are"),
        ({"engine": "kafka:4"}, "expected an engine"),
        ({"security": "tls"}, "expected security ssl, mtls, sasl_ssl, got 'tls'"),
    ],
)
def test_what_no_cluster_can_be_is_refused(wanted: dict[str, Any], refused: str) -> None:
    with pytest.raises(ValueError, match=f"^{refused}"):
        of_mark(wanted, {})


def test_a_mark_with_an_unknown_argument_is_refused() -> None:
    with pytest.raises(
        TypeError, match=r"^unknown setting 'disk'; expected one of brokers, disks,"
    ):
        of_mark({"disk": 2}, {})


def test_tests_share_a_cluster_only_where_its_nodes_are_equal() -> None:
    variables = {ENGINE_VARIABLE: KAFKA}
    one = of_mark({"controllers": 3}, variables)
    assert one == of_mark({"controllers": 3, "engine": KAFKA}, variables)
    others = ({}, {"combined": True}, {"controllers": 3, "jvm_options": "-Xmx1g"}, {"calls": True})
    assert len({one, *(of_mark(each, variables) for each in others)}) == 5


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("k:9092", [("k", 9092, 9092), ("k", 9093, 9093), ("k", 9094, 9094)]),
        ("k:32000=9092", [("k", 32000, 9092), ("k", 32001, 9093), ("k", 32002, 9094)]),
        ("a:1, b:2=9,[::1]:3", [("a", 1, 1), ("b", 2, 9), ("[::1]", 3, 3)]),
    ],
)
def test_each_broker_is_advertised_by_an_address(
    text: str, found: list[tuple[str, int, int]]
) -> None:
    assert ClusterSpec(brokers=3, advertise=text).advertised == found


@pytest.mark.parametrize("text", ["k", "k:0", "k:70000", "k:1=x", "k:1,k:2", "a b:1"])
def test_addresses_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(EngineError, match="--advertise"):
        ClusterSpec(brokers=3, advertise=text).check()


def test_a_broker_has_not_the_id_of_the_first_controller() -> None:
    ClusterSpec(brokers=99).check()
    with pytest.raises(EngineError, match="at most 99 brokers, not 100: node 100"):
        ClusterSpec(brokers=100).check()


def test_settings_of_the_environment_are_words_of_the_command_line() -> None:
    variables = {
        "JBODLAB_BROKERS": "5",
        "JBODLAB_CONFIG": "a=b 'c=d e'",
        "JBODLAB_COMBINED": "yes",
        "JBODLAB_ENGINE": "kafka:4.3.1",
        "JBODLAB_SECURITY": "",
    }

    assert of_variables(variables) == [
        *("--brokers=5", "--config=a=b", "--config=c=d e", "--combined")
    ]
    assert of_variables({"JBODLAB_COMBINED": "false"}) == []

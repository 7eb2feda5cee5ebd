from __future__ import annotations

import pytest

from controller.config import controller_config
from jbodlab.vocabulary.errors import ConfigError

PROPERTIES = {
    "process.roles": "controller",
    "node.id": "100",
    "controller.quorum.voters": "100@localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "CONTROLLER://localhost:9093",
    "log.dirs": "/var/lib/jbodlab",
}


def test_kafkas_defaults() -> None:
    config, unknown = controller_config(PROPERTIES)

    assert unknown == []
    assert (config.listener.host, config.listener.port) == ("localhost", 9093)
    assert (config.session_timeout_ms, config.heartbeat_interval_ms) == (9_000, 2_000)
    assert config.idle_interval_ms == 500
    assert (config.num_partitions, config.default_replication_factor) == (1, 1)
    assert config.leader_imbalance_check_interval_ms == 300_000
    assert str(config.node.metadata_log_dir) == "/var/lib/jbodlab"


def test_unknown_keys_are_named() -> None:
    _, unknown = controller_config({**PROPERTIES, "z.key": "1", "a.key": "2"})

    assert unknown == ["a.key", "z.key"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("process.roles", "broker,controller"),
        ("process.roles", "broker"),
        ("controller.quorum.voters", "100@localhost:9093,101@localhost:9094"),
        ("broker.session.timeout.ms", "soon"),
        ("listeners", "OTHER://localhost:9093"),
    ],
)
def test_what_is_no_single_controller_is_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError):
        controller_config({**PROPERTIES, key: value})


def test_with_an_authorizer_the_controller_knows_the_brokers() -> None:
    secured = {
        **PROPERTIES,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    }
    with pytest.raises(ConfigError, match="User:ANONYMOUS, which must be one"):
        controller_config(secured)
    controller_config({**secured, "super.users": "User:ANONYMOUS"})
    secured["listener.security.protocol.map"] = "CONTROLLER:SSL"
    controller_config(secured)

from __future__ import annotations

import pytest

from controller.config import controller_config
from jbodlab.raft.settings import RaftSettings
from jbodlab.security.tls_settings import ClientAuth
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


QUORUM = {
    **PROPERTIES,
    "controller.quorum.voters": "100@host-a:9093,101@host-b:9093,102@host-c:9093",
    "controller.listener.names": "CONTROLLER,BROKERS",
    "listeners": "CONTROLLER://:9093,BROKERS://:9094",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,BROKERS:PLAINTEXT",
}


def test_a_controller_of_a_quorum_has_a_listener_for_controllers_and_one_for_brokers() -> None:
    config, _ = controller_config(QUORUM)

    assert config.listener.port == 9094
    quorum = config.quorum
    assert quorum.listener is not None
    assert quorum.listener.port == 9093
    assert quorum.voters.ids == (100, 101, 102)
    assert quorum.bootstrap_servers == (("host-b", 9093), ("host-c", 9093))
    assert [(each.name, each.host, each.port) for each in quorum.endpoints] == [
        ("CONTROLLER", "host-a", 9093),
        ("BROKERS", "host-a", 9094),
    ]
    assert quorum.timing == RaftSettings()


def test_a_controller_with_a_listener_for_brokers_only_is_alone() -> None:
    config, _ = controller_config(PROPERTIES)

    quorum = config.quorum
    assert quorum.is_alone
    assert quorum.voters.ids == (config.node.node_id,)
    assert (quorum.endpoints, quorum.bootstrap_servers, quorum.tls) == ((), (), None)
    # It keeps no room for votes, and has nobody to hand over to.
    assert (quorum.reserve_bytes, quorum.timing.disk_slow_ms) == (0, 0)


def test_a_controller_whose_voters_are_in_its_log_is_told_where_others_are() -> None:
    of_voters = {"controller.quorum.voters": ""}
    servers = {"controller.quorum.bootstrap.servers": "host-b:9093,localhost:9093"}

    config, _ = controller_config(QUORUM | of_voters | servers)

    assert config.quorum.voters.ids == ()
    # Without this one.
    assert config.quorum.bootstrap_servers == (("host-b", 9093),)


def test_controllers_show_each_other_certificates_with_the_keys_of_their_listener() -> None:
    secured = {
        **QUORUM,
        "listener.security.protocol.map": "CONTROLLER:SSL,BROKERS:SSL",
        "ssl.keystore.location": "/keys/all",
        "ssl.truststore.location": "/keys/trusted",
        "ssl.client.auth": "none",
        "listener.name.controller.ssl.keystore.location": "/keys/controllers",
        "listener.name.controller.ssl.endpoint.identification.algorithm": "",
        "jbodlab.controller.principal": "User:c{id}",
    }

    config, _ = controller_config(secured)

    tls = config.quorum.tls
    assert tls is not None
    assert tls.key_store is not None
    assert tls.trust_store is not None
    assert str(tls.key_store.location) == "/keys/controllers"
    assert str(tls.trust_store.location) == "/keys/trusted"
    assert tls.client_auth is ClientAuth.REQUIRED
    assert not tls.checks_host
    assert config.quorum.names.of(101) == "c101"


@pytest.mark.parametrize(
    ("changed", "key", "reason"),
    [
        (
            {"controller.listener.names": "CONTROLLER"},
            "controller.listener.names",
            "must name two listeners in a quorum",
        ),
        (
            {"listeners": "CONTROLLER://:9093"},
            "controller.listener.names",
            "must name two listeners in a quorum",
        ),
        (
            {"controller.quorum.voters": "100@a:1,100@b:1"},
            "controller.quorum.voters",
            "names a controller twice",
        ),
        (
            {"listener.security.protocol.map": "CONTROLLER:SSL,BROKERS:SSL"},
            "listener.name.controller.ssl.keystore.location",
            "needs a key store",
        ),
        (
            {
                "listener.security.protocol.map": "CONTROLLER:SSL,BROKERS:SSL",
                "ssl.keystore.location": "/keys/own",
            },
            "listener.name.controller.ssl.truststore.location",
            "needs a trust store",
        ),
        (
            {"listener.security.protocol.map": "CONTROLLER:SASL_SSL,BROKERS:SSL"},
            "listener.security.protocol.map",
            "they do not log in",
        ),
        (
            {"jbodlab.controller.principal": "User:controller"},
            "jbodlab.controller.principal",
            r"expected User:NAME with \{id\} in NAME",
        ),
        (
            {"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,BROKERS:SSL"},
            "listener.security.protocol.map",
            "must have the same security protocol",
        ),
        (
            {"jbodlab.log.dir.probe.interval.ms": "1001"},
            "jbodlab.log.dir.probe.interval.ms",
            "must be at most 1000 where there are other controllers",
        ),
    ],
)
def test_a_wrong_quorum_is_refused(changed: dict[str, str], key: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as error:
        controller_config(QUORUM | changed)
    assert error.value.key == key

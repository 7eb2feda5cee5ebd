from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from broker import config
from broker.assemblies.replicas import ReplicationSettings
from broker.controller_link.broker_life_rules import BrokerLifeSettings
from broker.disk.slowness import SlowSettings
from broker.following.lane_replicas import FetcherSettings
from jbodlab.config import connection_keys
from jbodlab.security.authorizer import AuthorizerSettings
from jbodlab.vocabulary.errors import ConfigError, FormatError

MINIMAL = {
    "process.roles": "broker",
    "node.id": "1",
    "controller.quorum.voters": "100@localhost:9100",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://localhost:9092",
    "log.dirs": "/data/d1, /data/d2/,/data/d3",
    "metadata.log.dir": "/data/metadata",
}


def test_kafkas_keys_and_defaults() -> None:
    found, unknown = config.from_properties(MINIMAL)

    assert unknown == []
    assert found.node_id == 1
    assert found.log_dirs == (Path("/data/d1"), Path("/data/d2"), Path("/data/d3"))
    assert found.metadata_log_dir == Path("/data/metadata")
    assert found.controller_addresses == ("localhost:9100",)
    assert found.jbodlab_log_dir_probe_interval_ms == 500
    assert found.jbodlab_log_dir_probe_deadline_ms == 2_000
    assert found.replica_high_watermark_checkpoint_interval_ms == 5_000
    assert found.log_segment_delete_delay_ms == 60_000
    assert found.controlled_shutdown_enable


def test_a_controller_may_be_at_several_addresses() -> None:
    more = {"jbodlab.controller.bootstrap.servers": "localhost:9100, other:9200, [::1]:9300"}
    found, unknown = config.from_properties(MINIMAL | more)

    assert unknown == []
    assert found.controller_addresses == ("localhost:9100", "other:9200", "[::1]:9300")
    with pytest.raises(ConfigError, match="expected host:port"):
        config.from_properties(MINIMAL | {"jbodlab.controller.bootstrap.servers": "1@other:9200"})


@pytest.mark.parametrize(
    ("prefix", "settings"),
    [
        ("broker.", BrokerLifeSettings()),
        ("log.dir.slow.", SlowSettings()),
    ],
)
def test_settings_of_parts_have_kafkas_defaults(prefix: str, settings: msgspec.Struct) -> None:
    values = config.from_properties(MINIMAL)[0].values

    assert values.settings(type(settings), prefix) == settings


@pytest.mark.parametrize(
    ("prefix", "cls"), [("replica.", ReplicationSettings), ("replica.fetch.", FetcherSettings)]
)
def test_settings_of_replicas_have_kafkas_defaults(prefix: str, cls: type[Any]) -> None:
    values = config.from_properties(MINIMAL)[0].values

    assert values.settings(cls, prefix, broker_id=1) == cls(broker_id=1)


def test_the_metadata_directory_is_the_first_log_directory_by_default() -> None:
    without = {key: value for key, value in MINIMAL.items() if key != "metadata.log.dir"}
    assert config.from_properties(without)[0].metadata_log_dir == Path("/data/d1")


def test_a_broker_process_has_the_role_broker_only() -> None:
    for roles in ("controller", "broker,controller"):
        properties = {
            **MINIMAL,
            "process.roles": roles,
            "node.id": "100",
            "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9100",
        }
        with pytest.raises(ConfigError, match=r"process\.roles"):
            config.from_properties(properties)


def test_a_follower_may_not_wait_longer_than_it_may_lag() -> None:
    with pytest.raises(ConfigError, match=r"replica\.fetch\.wait\.max\.ms"):
        config.from_properties({**MINIMAL, "replica.fetch.wait.max.ms": "30001"})


def test_unknown_keys_are_named_and_wrong_values_refused(tmp_path: Path) -> None:
    assert config.from_properties({**MINIMAL, "no.such.key": "1"})[1] == ["no.such.key"]

    path = tmp_path / "server.properties"
    lines = [f"{key}={value}\n" for key, value in MINIMAL.items()]
    path.write_text("".join(lines))
    assert config.load(path).node_id == 1
    path.write_text("".join([*lines, "broker.heartbeat.interval.ms=soon\n"]))
    with pytest.raises(ConfigError, match=r"invalid value 'soon' for configuration broker\.heart"):
        config.load(path)
    with pytest.raises(FormatError, match=r"cannot read .*missing\.properties"):
        config.load(tmp_path / "missing.properties")


def test_when_a_directory_is_full_or_slow_can_be_configured() -> None:
    found, _ = config.from_properties(MINIMAL)
    assert found.log_dir_reserved_bytes == -1

    changed = {
        "log.dir.reserved.bytes": "0",
        "log.dir.slow.threshold.ms": "-1",
        "log.dir.slow.outlier.factor": "2.5",
        "log.dir.slow.policy": "MOVE",
    }
    found, unknown = config.from_properties({**MINIMAL, **changed})
    assert unknown == []
    assert found.log_dir_reserved_bytes == 0
    slow = found.values.settings(SlowSettings, "log.dir.slow.")
    assert (slow.threshold_ms, slow.outlier_factor, slow.moves_leaders) == (-1, 2.5, True)

    for key, value in (
        ("log.dir.reserved.bytes", "-2"),
        ("log.dir.slow.threshold.ms", "-2"),
        ("log.dir.slow.policy", "leave"),
        ("log.dir.slow.window.ms", "0"),
    ):
        with pytest.raises(ConfigError, match=key.replace(".", r"\.")):
            config.from_properties({**MINIMAL, key: value})


def test_two_phase_commit_is_refused_by_its_name() -> None:
    key = "transaction.two.phase.commit.enable"
    assert config.from_properties({**MINIMAL, key: "false"})[1] == []
    with pytest.raises(ConfigError, match=r"two\.phase\.commit\.enable.*KIP-939"):
        config.from_properties({**MINIMAL, key: "true"})


def test_limits_of_connections_and_their_requests_are_kafkas_but_for_the_memory() -> None:
    found, unknown = config.from_properties(MINIMAL)

    assert unknown == []
    for key in (connection_keys.TOTAL, connection_keys.PER_IP):
        assert found.values.integer(key) == 2**31 - 1
    assert (found.connections_max_idle_ms, found.queued_max_request_bytes) == (600_000, 100 << 20)


@pytest.mark.parametrize("text", ["-1", "0"])
def test_memory_of_requests_without_a_limit(text: str) -> None:
    found, _ = config.from_properties({**MINIMAL, "queued.max.request.bytes": text})

    assert found.queued_max_request_bytes is None


def test_memory_of_requests_holds_the_largest_of_them() -> None:
    found, _ = config.from_properties({**MINIMAL, "socket.request.max.bytes": "200000000"})
    assert found.queued_max_request_bytes == 100 << 20, "the default is refused to nobody"

    with pytest.raises(ConfigError, match=r"must be at least socket\.request\.max\.bytes"):
        config.from_properties({**MINIMAL, "queued.max.request.bytes": "1000"})


def test_limits_of_single_addresses() -> None:
    key = "max.connections.per.ip.overrides"
    found, _ = config.from_properties(
        {**MINIMAL, "max.connections.per.ip": "0", key: "127.0.0.1:5, ::1:6"}
    )
    assert connection_keys.per_ip_overrides(found.values) == {"127.0.0.1": 5, "::1": 6}

    for wrong in ("localhost:5", "127.0.0.1", "127.0.0.1:many"):
        with pytest.raises(ConfigError, match="expected ADDRESS:NUMBER"):
            config.from_properties({**MINIMAL, key: wrong})


def test_limit_of_a_listener_is_known_and_checked() -> None:
    key = "listener.name.plaintext.max.connections"
    _, unknown = config.from_properties({**MINIMAL, key: "5", "listener.name.x.nope": "1"})
    assert unknown == ["listener.name.x.nope"]

    with pytest.raises(ConfigError, match="expected an integer"):
        config.from_properties({**MINIMAL, key: "many"})


def test_no_connection_at_all_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"may be 0 only where .*overrides is set"):
        config.from_properties({**MINIMAL, "max.connections.per.ip": "0"})


STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def test_without_an_authorizer_everybody_may_do_everything() -> None:
    assert config.from_properties(MINIMAL)[0].authorizer is None


def test_an_authorizer_has_super_users_between_semicolons() -> None:
    found, unknown = config.from_properties(
        {
            **MINIMAL,
            "authorizer.class.name": STANDARD,
            "super.users": "User:ANONYMOUS; User:CN=alice,O=x ;",
            "allow.everyone.if.no.acl.found": "true",
        }
    )

    assert unknown == []
    assert found.authorizer == AuthorizerSettings(
        super_users=frozenset({"User:ANONYMOUS", "User:CN=alice,O=x"}), allows_without_acls=True
    )


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"authorizer.class.name": "com.example.Other"}, "authorizer.class.name"),
        ({"authorizer.class.name": STANDARD, "super.users": "alice"}, "super.users"),
        # The brokers would be nobody, and could not follow each other.
        ({"authorizer.class.name": STANDARD, "super.users": "User:alice"}, "super.users"),
        (
            {
                "authorizer.class.name": STANDARD,
                "super.users": "User:ANONYMOUS",
                "allow.everyone.if.no.acl.found": "perhaps",
            },
            "allow.everyone.if.no.acl.found",
        ),
    ],
)
def test_a_wrong_authorizer_stops_the_start(settings: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError) as raised:
        config.from_properties({**MINIMAL, **settings})
    assert raised.value.key == key


def test_with_an_authorizer_brokers_are_known_to_each_other_and_to_the_controller() -> None:
    secured = {
        **MINIMAL,
        "authorizer.class.name": STANDARD,
        "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "/keys/broker.pem",
    }
    with pytest.raises(ConfigError, match="listener CONTROLLER of the brokers is PLAINTEXT"):
        config.from_properties(secured)
    secured["listener.security.protocol.map"] = "PLAINTEXT:SSL,CONTROLLER:SSL"
    assert config.from_properties(secured)[0].authorizer is not None

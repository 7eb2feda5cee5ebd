"""The settings of a broker process, from Kafka's property file.

Source: `kafka.server.KafkaConfig`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import msgspec

from broker.groups.settings import GroupSettings, group_settings
from broker.transactions.settings import TransactionSettings, transaction_settings
from jbodlab.cli.command_line import read_properties
from jbodlab.config import connection_keys, dynamic_keys, kafka_configs, key_table, tls_keys
from jbodlab.config.authorizer import authorizer_settings, check_brokers
from jbodlab.config.dynamic_keys import CORDONED_LOG_DIRS
from jbodlab.config.key_table import Values
from jbodlab.config.listener_security import (
    ListenerSecurity,
    PeerSecurity,
    listener_security,
    peer_security,
    prefix_of,
    unread,
)
from jbodlab.config.node_config import (
    NodeConfig,
    controller_tls,
    encrypts,
    logs_in,
    node_config,
    read_values,
)
from jbodlab.config.tls_keys import CLIENT_AUTH, listener_tls
from jbodlab.controller_api.rpc_tls import BROKER_PRINCIPAL, BrokerPrincipals, broker_principals
from jbodlab.security.authorizer import AuthorizerSettings
from jbodlab.security.tls_settings import ClientAuth, TlsSettings
from jbodlab.vocabulary.addresses import address_text
from jbodlab.vocabulary.endpoint import Endpoint
from jbodlab.vocabulary.errors import ConfigError
from jbodlab.vocabulary.ids import BrokerId

logger = logging.getLogger(__name__)

BROKER_ROLES = frozenset({"broker"})


class BrokerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration of a broker; fields are named after Kafka's keys.

    Attributes:
        values: All settings, for what topics may override one by one.
        controllers: Host and port wherever the controller of this broker may be.
        controller_listener_name: Name of the listener there.
        listeners, advertised_listeners: Where clients are served, and the addresses they are told.
        security: How clients log in, by the listeners where they have to.
        tls: How connections are encrypted, by the listeners where they are.
        peers: How this broker connects to the others.
        broker_principals: Which user is which broker, where brokers have users of their own.
        controller_tls: How it reaches the controller; None where that is not encrypted.
        authorizer: Settings that count besides access control entries; None without an authorizer.
        log_dirs: In configured order.
        metadata_log_dir: One of them, or a separate directory.
    """

    values: Values
    node_id: BrokerId
    broker_rack: str | None
    controllers: tuple[tuple[str, int], ...]
    controller_listener_name: str
    listeners: tuple[Endpoint, ...]
    advertised_listeners: tuple[Endpoint, ...]
    inter_broker_listener_name: str
    security: Mapping[str, ListenerSecurity]
    tls: Mapping[str, TlsSettings]
    peers: PeerSecurity
    broker_principals: BrokerPrincipals
    controller_tls: TlsSettings | None
    authorizer: AuthorizerSettings | None
    socket_request_max_bytes: int
    queued_max_request_bytes: int | None
    max_request_partition_size_limit: int
    connections_max_idle_ms: int

    log_dirs: tuple[Path, ...]
    metadata_log_dir: Path
    jbodlab_log_dir_probe_interval_ms: int
    jbodlab_log_dir_probe_deadline_ms: int
    log_dir_reserved_bytes: int

    replica_high_watermark_checkpoint_interval_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    log_retention_check_interval_ms: int
    log_initial_task_delay_ms: int
    log_segment_delete_delay_ms: int

    controlled_shutdown_enable: bool
    auto_create_topics_enable: bool
    request_timeout_ms: int
    groups: GroupSettings
    transactions: TransactionSettings

    @property
    def controller_addresses(self) -> tuple[str, ...]:
        """`host:port` wherever a controller may be, as gRPC wants it."""
        return tuple(address_text(host, port) for host, port in self.controllers)

    def listener_tls(self, values: Values, name: str) -> TlsSettings:
        """Return how one listener encrypts by other values; raises ConfigError."""
        return listener_tls(values.properties, prefix_of(name), logs_in=name in self.security)


def load(path: Path) -> BrokerConfig:
    """Read a property file; unknown keys are warned about.

    Raises:
        FormatError: the file cannot be read.
        ConfigError: a setting in it is wrong.
    """
    config, unknown = from_properties(read_properties(path))
    for name in unknown:
        logger.warning("%s", key_table.unknown_text(kafka_configs.NODE, name))
    for name in _without_client_auth(config):
        logger.warning(
            "%s is ignored for listener %s, whose clients log in: set %s",
            CLIENT_AUTH,
            name,
            prefix_of(name) + CLIENT_AUTH,
        )
    for key in key_table.without_effect(kafka_configs.NODE, config.values.properties):
        logger.warning("configuration %s is %s", key.name, key.meaning)
    return config


def from_properties(found: Mapping[str, str]) -> tuple[BrokerConfig, list[str]]:
    """Read settings.

    Returns:
        The settings, and the keys that no component knows.

    Raises:
        ConfigError: one of them is wrong, or they are not those of a broker.
    """
    values, unknown = read_values(found)
    limits = {
        name: key
        for name in unknown
        if name.endswith(f".{connection_keys.TOTAL}")
        and (key := dynamic_keys.key_of(name)) is not None
    }
    key_table.read(limits, found)
    node = node_config(values)
    if node.roles != BROKER_ROLES:
        raise ConfigError("process.roles", ",".join(sorted(node.roles)), "must contain broker")
    config = _config(values, node)
    _check(config)
    return config, unread(values, (name for name in unknown if name not in limits))


def _config(values: Values, node: NodeConfig) -> BrokerConfig:
    return values.settings(
        BrokerConfig,
        values=values,
        node_id=node.node_id,
        controllers=node.controllers,
        controller_listener_name=node.grpc_listener_name,
        listeners=node.listeners,
        advertised_listeners=node.advertised_listeners,
        inter_broker_listener_name=node.inter_broker_listener_name,
        security={
            each.name: listener_security(values, each.name)
            for each in node.listeners
            if logs_in(each.security_protocol)
        },
        tls={
            each.name: listener_tls(
                values.properties, prefix_of(each.name), logs_in=logs_in(each.security_protocol)
            )
            for each in node.listeners
            if encrypts(each.security_protocol)
        },
        peers=_peers(values, node),
        broker_principals=_broker_principals(values, node),
        controller_tls=controller_tls(values, node),
        authorizer=authorizer_settings(values),
        queued_max_request_bytes=_positive(values.integer("queued.max.request.bytes")),
        log_dirs=tuple(map(Path, node.log_dirs)),
        metadata_log_dir=Path(node.metadata_log_dir),
        groups=group_settings(values),
        transactions=transaction_settings(values),
    )


def _peers(values: Values, node: NodeConfig) -> PeerSecurity:
    protocols = {each.name: each.security_protocol for each in node.listeners}
    protocol = protocols[node.inter_broker_listener_name]
    return peer_security(
        values,
        node.inter_broker_listener_name,
        encrypts=encrypts(protocol),
        logs_in=logs_in(protocol),
    )


def _broker_principals(values: Values, node: NodeConfig) -> BrokerPrincipals:
    prefix = prefix_of(node.inter_broker_listener_name)
    return broker_principals(
        values.text(BROKER_PRINCIPAL), tls_keys.mapping(values.properties, prefix)
    )


def _positive(limit: int) -> int | None:
    return limit if limit > 0 else None


def _check_connections(values: Values) -> None:
    overrides = connection_keys.per_ip_overrides(values)
    if not overrides and not values.integer(connection_keys.PER_IP):
        key = connection_keys.PER_IP_OVERRIDES
        raise ConfigError(connection_keys.PER_IP, 0, f"may be 0 only where {key} is set")


def _check_brokers(config: BrokerConfig) -> None:
    """Raise ConfigError where nobody would know the brokers."""
    name = config.inter_broker_listener_name
    protocols = {each.name: each.security_protocol for each in config.listeners}
    are_known = encrypts(protocols[name]) or logs_in(protocols[name])
    check_brokers(config.authorizer, name, are_known=are_known)
    check_brokers(
        config.authorizer,
        config.controller_listener_name,
        are_known=config.controller_tls is not None,
    )


def _without_client_auth(config: BrokerConfig) -> list[str]:
    """Return the listeners for which the setting of all listeners is not read."""
    if not config.values.is_set(CLIENT_AUTH):
        return []
    both = sorted(set(config.tls) & set(config.security))
    return [name for name in both if not config.values.is_set(prefix_of(name) + CLIENT_AUTH)]


def _check_client_auth(config: BrokerConfig) -> None:
    """Raise ConfigError where the setting of all listeners is read for none of them."""
    value = config.values.text(CLIENT_AUTH)
    names = _without_client_auth(config)
    if names and len(names) == len(config.tls) and value.lower() != ClientAuth.NONE.value:
        raise ConfigError(
            CLIENT_AUTH,
            value,
            f"has no effect where clients log in: set {prefix_of(names[0])}{CLIENT_AUTH}",
        )


def _check(config: BrokerConfig) -> None:
    _check_brokers(config)
    _check_client_auth(config)
    _check_connections(config.values)
    queued_bytes = config.queued_max_request_bytes
    if (
        config.values.is_set("queued.max.request.bytes")
        and queued_bytes is not None
        and queued_bytes < config.socket_request_max_bytes
    ):
        raise ConfigError(
            "queued.max.request.bytes", queued_bytes, "must be at least socket.request.max.bytes"
        )
    cordoned = config.values.optional_text(CORDONED_LOG_DIRS) or ""
    dynamic_keys.check({CORDONED_LOG_DIRS: cordoned}, all_brokers=False)
    unknown = set(dynamic_keys.words(cordoned)) - {
        dynamic_keys.ALL_LOG_DIRS,
        *map(str, config.log_dirs),
    }
    if unknown:
        raise ConfigError(
            CORDONED_LOG_DIRS, cordoned, "must name directories of log.dirs or log.dir"
        )
    integer = config.values.integer
    wait_ms = integer("replica.fetch.wait.max.ms")
    if wait_ms > min(integer("replica.socket.timeout.ms"), integer("replica.lag.time.max.ms")):
        raise ConfigError(
            "replica.fetch.wait.max.ms",
            wait_ms,
            "must be at most replica.socket.timeout.ms and replica.lag.time.max.ms",
        )

"""Settings that a controller takes from its property file.

Source: `org.apache.kafka.server.config`, KIP-500 for the roles.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from jbodlab.config import node_config, tls_keys
from jbodlab.config.authorizer import authorizer_settings, check_brokers
from jbodlab.config.key_table import Values
from jbodlab.config.listener_security import prefix_of, unread
from jbodlab.config.node_config import NodeConfig
from jbodlab.controller_api.rpc_tls import BROKER_PRINCIPAL, BrokerPrincipals, broker_principals
from jbodlab.metadata.log.settings import MetadataLogSettings, metadata_log_settings
from jbodlab.runtime.metrics_endpoint import Address, metrics_address
from jbodlab.security.authorizer import AuthorizerSettings
from jbodlab.security.tls_settings import TlsSettings
from jbodlab.vocabulary.endpoint import Endpoint
from jbodlab.vocabulary.errors import ConfigError


class ControllerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one controller process.

    Attributes:
        listener: Where brokers reach it.
        metrics: Where to show metrics, if at all.
        idle_interval_ms: Silence of the metadata log before a NoOp record; 0 for none.
        mutations_kept_s: How many seconds' worth of changes a client may make at once.
        tls: Keys of this controller; None where brokers reach it without.
        principals: Which certificate is which broker's.
        reload_interval_ms: Time between two looks for new certificates.
        authorizer: Whose rights count; None without an authorizer.
        static_configs: The whole file; it is what topic configs fall back to.
    """

    node: NodeConfig
    listener: Endpoint
    session_timeout_ms: int
    heartbeat_interval_ms: int
    num_partitions: int
    default_replication_factor: int
    delete_topic_enable: bool
    auto_leader_rebalance_enable: bool
    leader_imbalance_check_interval_ms: int
    unclean_election_interval_ms: int
    idle_interval_ms: int
    mutations_kept_s: int
    probe_interval_ms: int
    metadata_log: MetadataLogSettings
    tls: TlsSettings | None
    principals: BrokerPrincipals
    reload_interval_ms: int
    metrics: Address | None = None
    authorizer: AuthorizerSettings | None = None
    static_configs: Mapping[str, str] = msgspec.field(default_factory=dict)


def controller_config(properties: Mapping[str, str]) -> tuple[ControllerConfig, list[str]]:
    """Read a property file.

    Returns:
        The settings, and the keys of the file that mean nothing here.

    Raises:
        ConfigError: a value is wrong, or this is no file of a single controller.
    """
    values, unknown = node_config.read_values(properties)
    node = node_config.node_config(values)
    if node.roles != {"controller"}:
        raise ConfigError(
            "process.roles",
            ",".join(sorted(node.roles)),
            "must contain controller",
        )
    config = ControllerConfig(
        node=node,
        listener=_listener(node),
        session_timeout_ms=values.integer("broker.session.timeout.ms"),
        heartbeat_interval_ms=values.integer("broker.heartbeat.interval.ms"),
        num_partitions=values.integer("num.partitions"),
        default_replication_factor=values.integer("default.replication.factor"),
        delete_topic_enable=values.flag("delete.topic.enable"),
        auto_leader_rebalance_enable=values.flag("auto.leader.rebalance.enable"),
        leader_imbalance_check_interval_ms=1_000
        * values.integer("leader.imbalance.check.interval.seconds"),
        unclean_election_interval_ms=values.integer("unclean.leader.election.interval.ms"),
        idle_interval_ms=values.integer("metadata.max.idle.interval.ms"),
        mutations_kept_s=values.integer("controller.quota.window.num")
        * values.integer("controller.quota.window.size.seconds"),
        probe_interval_ms=values.integer("jbodlab.log.dir.probe.interval.ms"),
        metadata_log=metadata_log_settings(values),
        metrics=metrics_address(values),
        tls=node_config.controller_tls(values, node),
        principals=_principals(values, node),
        reload_interval_ms=values.integer("jbodlab.ssl.reload.interval.ms"),
        authorizer=authorizer_settings(values),
        static_configs=dict(properties),
    )
    check_brokers(config.authorizer, config.listener.name, are_known=config.tls is not None)
    return config, unread(values, unknown)


def _principals(values: Values, node: NodeConfig) -> BrokerPrincipals:
    prefix = prefix_of(node.controller_listener_names[0])
    return broker_principals(
        values.text(BROKER_PRINCIPAL), tls_keys.mapping(values.properties, prefix)
    )


def _listener(node: NodeConfig) -> Endpoint:
    names = {name.upper() for name in node.controller_listener_names}
    return next(listener for listener in node.listeners if listener.name in names)

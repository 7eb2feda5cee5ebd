"""Settings that a controller takes from its property file.

Source: `org.apache.kafka.server.config`, KIP-500 for the roles.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from jbodlab.config import node_config, tls_keys
from jbodlab.config.authorizer import authorizer_settings, check_brokers
from jbodlab.config.key_table import Values
from jbodlab.config.listener_security import prefix_of, unread
from jbodlab.config.node_config import NodeConfig, VoterAddress
from jbodlab.controller_api.rpc_tls import BROKER_PRINCIPAL, BrokerPrincipals, broker_principals
from jbodlab.metadata.log.settings import MetadataLogSettings, metadata_log_settings
from jbodlab.metadata.records.control_records import (
    KRaftVersionFeature,
    KRaftVoter,
    KRaftVoterEndpoint,
)
from jbodlab.raft.settings import RaftSettings
from jbodlab.raft.voters import UNKNOWN_DIRECTORY, Endpoints, VoterSet
from jbodlab.runtime.metrics_endpoint import Address, metrics_address
from jbodlab.security.authorizer import AuthorizerSettings
from jbodlab.security.node_names import NodeNames, node_names
from jbodlab.security.tls_settings import TlsSettings
from jbodlab.vocabulary.endpoint import Endpoint
from jbodlab.vocabulary.errors import ConfigError

CONTROLLER_PRINCIPAL = "jbodlab.controller.principal"
PROBE_INTERVAL, PROBE_INTERVAL_MS_MAX = "jbodlab.log.dir.probe.interval.ms", 1_000


class QuorumConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a controller as a member of its quorum.

    Attributes:
        listener: Where other controllers reach it; None where it is the only one for good.
        endpoints: Where this controller is reached, by the names of its listeners; none without
            such a listener.
        voters: The voters where the log names none.
        bootstrap_servers: Host and port of other controllers that may know who leads.
        timing: Times and sizes.
        reserve_bytes: Room on the disk that is kept for votes; 0 for none.
        names: Which certificate is which controller's.
        tls: Keys of this controller for the others; None where they reach each other without.
    """

    listener: Endpoint | None
    endpoints: Endpoints
    voters: VoterSet
    bootstrap_servers: tuple[tuple[str, int], ...]
    timing: RaftSettings
    reserve_bytes: int
    names: NodeNames
    tls: TlsSettings | None

    @property
    def is_alone(self) -> bool:
        """Whether this controller is the only one for good."""
        return self.listener is None


class ControllerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one controller process.

    Attributes:
        listener: Where brokers reach it.
        quorum: Its part in the quorum.
        metrics: Where to show metrics, if at all.
        hold_ms: How long a request waits at a controller that was elected and has not claimed yet.
        idle_interval_ms: Silence of the metadata log before a NoOp record; 0 for none.
        mutations_kept_s: How many seconds' worth of changes a client may make at once.
        tls: Keys of this controller for brokers; None where they reach it without.
        principals: Which certificate is which broker's.
        reload_interval_ms: Time between two looks for new certificates.
        authorizer: Whose rights count; None without an authorizer.
        static_configs: The whole file; it is what topic configs fall back to.
    """

    node: NodeConfig
    listener: Endpoint
    quorum: QuorumConfig
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
    hold_ms: int = 500
    metrics: Address | None = None
    authorizer: AuthorizerSettings | None = None
    static_configs: Mapping[str, str] = msgspec.field(default_factory=dict)

    @property
    def advertised_listeners(self) -> tuple[Endpoint, ...]:
        """Where this controller says to be reached: by brokers, and in a quorum by all others."""
        if self.quorum.is_alone:
            return (replace(self.listener, host=self.listener.host or "localhost"),)
        return tuple(
            replace(self.node.controller_listener(each.name), host=each.host, port=each.port)
            for each in self.quorum.endpoints
        )


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
    probe_interval_ms = values.integer(PROBE_INTERVAL)
    if node.has_quorum and probe_interval_ms > PROBE_INTERVAL_MS_MAX:
        raise ConfigError(
            PROBE_INTERVAL,
            str(probe_interval_ms),
            f"must be at most {PROBE_INTERVAL_MS_MAX} where there are other controllers: until a "
            "removed directory is noticed, what is committed has a copy less",
        )
    config = ControllerConfig(
        node=node,
        listener=node.controller_listener(node.grpc_listener_name),
        quorum=_quorum(values, node),
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
        probe_interval_ms=probe_interval_ms,
        metadata_log=metadata_log_settings(values),
        hold_ms=values.integer("jbodlab.quorum.hold.ms"),
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
    prefix = prefix_of(node.grpc_listener_name)
    return broker_principals(
        values.text(BROKER_PRINCIPAL), tls_keys.mapping(values.properties, prefix)
    )


def _quorum(values: Values, node: NodeConfig) -> QuorumConfig:
    name, is_alone = node.controller_listener_names[0].upper(), not node.has_quorum
    endpoints = tuple(
        KRaftVoterEndpoint(name=each.name, host=each.host, port=each.port)
        for each in (() if is_alone else node.advertised_controllers[:2])
    )
    addresses = node.bootstrap_servers or tuple((each.host, each.port) for each in node.voters)
    reached_at = {(each.host, each.port) for each in endpoints[:1]}
    return QuorumConfig(
        listener=None if is_alone else node.controller_listener(name),
        endpoints=endpoints,
        voters=VoterSet.of(_voter(each, name) for each in node.voters),
        bootstrap_servers=tuple(
            each for each in (() if is_alone else addresses) if each not in reached_at
        ),
        timing=RaftSettings(
            election_timeout_ms=values.integer("controller.quorum.election.timeout.ms"),
            fetch_timeout_ms=values.integer("controller.quorum.fetch.timeout.ms"),
            election_backoff_max_ms=values.integer("controller.quorum.election.backoff.max.ms"),
            request_timeout_ms=values.integer("controller.quorum.request.timeout.ms"),
            retry_backoff_ms=values.integer("controller.quorum.retry.backoff.ms"),
            fetch_max_bytes=values.integer("controller.quorum.fetch.max.bytes"),
            fetch_snapshot_max_bytes=values.integer("controller.quorum.fetch.snapshot.max.bytes"),
            suspect_ms=values.integer("jbodlab.quorum.suspect.ms"),
            suspect_stagger_ms=values.integer("jbodlab.quorum.suspect.stagger.ms"),
            # There is nobody whom the leadership could be handed over to.
            disk_slow_ms=0 if is_alone else values.integer("jbodlab.quorum.disk.slow.ms"),
            auto_join=values.flag("controller.quorum.auto.join.enable"),
        ),
        # Without other voters nobody else has room.
        reserve_bytes=0 if is_alone else values.integer("jbodlab.metadata.reserve.bytes"),
        names=node_names(CONTROLLER_PRINCIPAL, values.text(CONTROLLER_PRINCIPAL)),
        tls=(
            tls_keys.controllers_tls(values.properties, prefix_of(name))
            if not is_alone and node_config.encrypts(node.controller_protocol)
            else None
        ),
    )


def _voter(address: VoterAddress, listener_name: str) -> KRaftVoter:
    """Return a voter as a property file names it: without a directory, at level 0."""
    endpoint = KRaftVoterEndpoint(name=listener_name, host=address.host, port=address.port)
    return KRaftVoter(
        voter_id=address.node_id,
        voter_directory_id=UNKNOWN_DIRECTORY,
        endpoints=(endpoint,),
        k_raft_version_feature=KRaftVersionFeature(
            min_supported_version=0, max_supported_version=0
        ),
    )

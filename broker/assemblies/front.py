"""The side of a broker that clients and operators meet: listeners, handlers and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from broker.api.handlers import ClientApis
from broker.api.parts import BrokerParts
from broker.api.services.produce_forwarder import ProduceForwarder
from broker.assemblies.controller_link import ControllerLink
from broker.assemblies.coordinators import Coordinators
from broker.assemblies.disks import Disks
from broker.assemblies.encryption import Encryption
from broker.assemblies.metrics import broker_metrics
from broker.assemblies.replicas import Replicas
from broker.bounds.limits import LAST_APPENDS_S
from broker.bounds.resources import OpenFiles
from broker.clients.user_sessions import UserSessions
from broker.config import BrokerConfig
from broker.metadata.dynamic_config import DynamicConfig
from broker.metadata.metadata_cache import MetadataCache
from broker.telemetry.clients import TelemetryClients
from broker.telemetry.subscriptions import Subscriptions
from jbodlab.config import connection_keys, dynamic_keys
from jbodlab.config.key_table import Values
from jbodlab.config.listener_security import KEYS_URL, prefix_of
from jbodlab.metadata.image.settings_image import Quotas
from jbodlab.metadata.records.metadata_version import CORDONED_DIRECTORIES_LEVEL
from jbodlab.metadata.records.scram import credential_of
from jbodlab.runtime.environment import Environment
from jbodlab.runtime.metrics_endpoint import MetricsEndpoint, metrics_address
from jbodlab.security.scram import (
    Decoys,
    ScramCredential,
    ScramMechanism,
    Shape,
    usual_shape,
)
from jbodlab.server.authentication import SaslSettings
from jbodlab.server.bounds import Bounds
from jbodlab.server.listener import Listener
from jbodlab.server.open_connections import ConnectionLimits
from jbodlab.server.rights import AllRights, EnforcedRights, Rights
from jbodlab.server.token_keys import TokenKeys

APPENDS_LOOK_S = 0.005
DECOY_SECRET = "jbodlab.scram.decoy.secret"
DECOY_SECRET_BYTES = 32


class Front:
    """The sockets of one broker, and who answers there."""

    def __init__(
        self,
        config: BrokerConfig,
        cluster_id: str,
        *,
        environment: Environment,
        open_files: OpenFiles,
        dynamic: DynamicConfig,
        disks: Disks,
        link: ControllerLink,
        replicas: Replicas,
        coordinators: Coordinators,
        encryption: Encryption,
    ) -> None:
        self._config = config
        self._disks = disks
        self._link = link
        manager = replicas.manager
        rights = _rights(config, link.cache, environment)
        telemetry = TelemetryClients(
            Subscriptions(lambda: link.cache.image.configs),
            config.values.integer("telemetry.max.bytes"),
            environment.monotonic_ms,
            environment.new_id,
        )
        self._apis = ClientApis(
            BrokerParts(
                broker_id=config.node_id,
                cluster_id=cluster_id,
                cache=link.cache,
                appends=manager.appends,
                fetches=manager.fetches,
                sessions=manager.sessions,
                offsets=manager.offsets,
                registry=manager.registry,
                delete_records=manager.delete_records,
                describe_log_dirs=manager.describe_log_dirs,
                move_requests=manager.move_requests,
                groups=coordinators.groups,
                transactions=coordinators.transactions,
                markers=coordinators.markers,
                internal_topic=coordinators.internal_topic,
                controller=link.channel,
                revival=disks.revival,
                broker_epoch=link.broker_epoch,
                threads=environment.threads,
                monotonic_s=environment.monotonic_s,
                applied_offset=lambda: link.feed.applied_offset,
                new_id=environment.new_id,
                kraft_version=lambda: link.feed.kraft_version,
                configs=dynamic,
                is_settled=self._cordon_is_registered,
                described_partitions_max=config.max_request_partition_size_limit,
                auto_create_topics=config.auto_create_topics_enable,
                log_dirs=lambda: disks.log_dirs.all,
                traffic=replicas.traffic,
                telemetry=telemetry,
                peers=encryption.peers,
                follower_names=encryption.follower_names(),
                rights=rights,
            )
        )
        self._open_files = open_files
        self._bounds = _bounds(config, open_files, environment, lambda: link.cache.image.quotas)
        self._token_keys = {
            name: TokenKeys(prefix_of(name) + KEYS_URL, security.tokens, environment)
            for name, security in config.security.items()
            if security.tokens is not None
        }
        self._listeners = [
            Listener(
                listener.name,
                listener.host,
                listener.port,
                self._apis.dispatcher,
                self._bounds,
                _sasl(
                    config,
                    listener.name,
                    link.cache,
                    environment,
                    self._token_keys.get(listener.name),
                ),
                encryption.listeners.get(listener.name),
            )
            for listener in config.listeners
        ]
        self.user_sessions = UserSessions(self._listeners)
        """Follows the metadata."""
        address = metrics_address(config.values)
        metrics = partial(
            broker_metrics,
            config,
            wall_ms=environment.wall_ms,
            disks=disks,
            link=link,
            replicas=replicas,
            coordinators=coordinators,
            encryption=encryption,
            telemetry=telemetry,
            listeners=self._listeners,
            rights=rights,
        )
        self._metrics = None if address is None else MetricsEndpoint(address, metrics)

    @property
    def produce_forwarder(self) -> ProduceForwarder:
        """Waits for other leaders, and follows the metadata for that."""
        return self._apis.produce_forwarder

    def use_settings(self, values: Values) -> None:
        """Use the limits of connections that are in force."""
        self._bounds.connections.use_limits(_limits(self._config, self._open_files, values))

    async def read_keys(self) -> None:
        """Read the keys of issuers of tokens; raises ConfigError if they cannot be read."""
        for keys in self._token_keys.values():
            await keys.start()

    async def start_metrics(self) -> None:
        """Show what there is to see, from the first moment on."""
        if self._metrics is not None:
            await self._metrics.start()

    async def start(self) -> None:
        """Serve clients; raises OSError if a listener cannot be bound."""
        self._bounds.start()
        for listener in self._listeners:
            await listener.start()

    async def stop(self) -> None:
        """Send clients away; what was not started has nothing to stop."""
        # Requests that are appended are written as well, and their clients learn it.
        for listener in self._listeners:
            listener.stop_serving()
        await self._appends_answered()
        for listener in self._listeners:
            await listener.close()
        self._bounds.stop()
        for keys in self._token_keys.values():
            await keys.stop()
        await self._apis.close()
        if self._metrics is not None:
            await self._metrics.close()

    async def _appends_answered(self) -> None:
        """Wait until no client waits for what it has sent: what is checked is yet to be appended.

        An answer counts as long as it is not sent, for whoever closes drops it.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + LAST_APPENDS_S
        while self._has_appends() and loop.time() < end:  # noqa: ASYNC110 - not one event
            await asyncio.sleep(APPENDS_LOOK_S)

    def _has_appends(self) -> bool:
        return any(each.has_appends for each in self._listeners)

    def _cordon_is_registered(self) -> bool:
        """Return whether the controller knows the cordoned directories, as the metadata shows."""
        image = self._link.cache.image
        registered = image.cluster.brokers.get(self._config.node_id)
        if registered is None or (image.features.metadata_version < CORDONED_DIRECTORIES_LEVEL):
            return True
        return set(registered.cordoned_directories or ()) == set(self._disks.cordon.ids or ())


def _bounds(
    config: BrokerConfig,
    open_files: OpenFiles,
    environment: Environment,
    quotas: Callable[[], Quotas],
) -> Bounds:
    return Bounds(
        environment,
        _limits(config, open_files, config.values),
        quotas=quotas,
        queued_max_request_bytes=config.queued_max_request_bytes,
        max_request_bytes=config.socket_request_max_bytes,
    )


def _rights(config: BrokerConfig, cache: MetadataCache, environment: Environment) -> Rights:
    if config.authorizer is None:
        return AllRights()
    return EnforcedRights(lambda: cache.image, config.authorizer, environment.monotonic_s)


def _sasl(
    config: BrokerConfig,
    listener: str,
    cache: MetadataCache,
    environment: Environment,
    keys: TokenKeys | None,
) -> SaslSettings | None:
    security = config.security.get(listener)
    if security is None:
        return None

    def find(mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        found = cache.image.security.scram.get((user, mechanism))
        return None if found is None else credential_of(found)

    shapes: dict[ScramMechanism, tuple[object, Shape]] = {}

    def shape(mechanism: ScramMechanism) -> Shape:
        users = cache.image.security.scram
        known = shapes.get(mechanism)
        if known is None or known[0] is not users:
            known = (
                users,
                usual_shape(
                    (each.iterations, each.salt)
                    for each in users.values()
                    if each.mechanism == mechanism
                ),
            )
            shapes[mechanism] = known
        return known[1]

    secret = config.values.optional_text(DECOY_SECRET)
    return SaslSettings(
        mechanisms=security.mechanisms,
        passwords=security.passwords,
        find=find,
        decoys=Decoys(
            secret=(secret.encode() if secret else environment.random_bytes(DECOY_SECRET_BYTES)),
            shape=shape,
        ),
        random_bytes=environment.random_bytes,
        token_login=None if keys is None else keys.login,
        sessions_s={each: ms / 1000 for each, ms in security.sessions_ms.items()},
        failure_delay_s=security.failure_delay_ms / 1000,
        max_receive_bytes=security.max_receive_bytes,
    )


def _limits(config: BrokerConfig, open_files: OpenFiles, values: Values) -> ConnectionLimits:
    of_listeners = dynamic_keys.of_listeners(values.properties, connection_keys.TOTAL)
    return ConnectionLimits(
        total=min(values.integer(connection_keys.TOTAL), open_files.connections),
        per_listener={name: int(limit) for name, limit in of_listeners.items()},
        waiting=open_files.waiting,
        per_ip=values.integer(connection_keys.PER_IP),
        per_ip_overrides=connection_keys.per_ip_overrides(values),
        max_idle_ms=config.connections_max_idle_ms,
        protected_listener=(
            config.inter_broker_listener_name if len(config.listeners) > 1 else None
        ),
    )

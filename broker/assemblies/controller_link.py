"""The exchange between this broker and the controller, and the metadata that comes of it."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import asdict

from broker.config import BrokerConfig
from broker.controller_link.assignment_sender import AssignmentSender
from broker.controller_link.broker_life import BrokerIdentity, BrokerLife
from broker.controller_link.broker_life_events import DirectoriesDegraded
from broker.controller_link.broker_life_rules import BrokerLifeSettings
from broker.controller_link.channel import ControllerChannel
from broker.controller_link.controllers import ControllerDirectory
from broker.controller_link.metadata_feed import MetadataFeed
from broker.controller_link.registration_check import RegistrationCheck
from broker.disk.condition import DegradedLogDirs
from broker.disk.life import OpenedLogDirs
from broker.metadata.metadata_cache import MetadataCache
from broker.metadata.metadata_publisher import MetadataPublisher
from jbodlab.controller_api.requests import AlterPartitionRequest, AlterPartitionResponse
from jbodlab.controller_api.rpc_tls import RpcKeys
from jbodlab.metadata.log.settings import metadata_log_settings
from jbodlab.runtime.environment import Environment
from jbodlab.vocabulary.ids import BrokerEpoch, DirectoryId


class ControllerLink:
    """The exchange between one broker and the controller.

    Args:
        config: The broker's.
        opened: Its directories.
        environment: Clocks, choices and ids.
        keys: Returns those of this broker; None where the controller needs none.
        on_fatal: Called with a line when the process has lost what it cannot be without.
        on_shutdown_required: Called with a reason when the process must stop.
    """

    def __init__(
        self,
        config: BrokerConfig,
        opened: OpenedLogDirs,
        *,
        environment: Environment,
        keys: Callable[[], RpcKeys] | None,
        on_fatal: Callable[[str], None],
        on_shutdown_required: Callable[[str], None],
    ) -> None:
        self._config = config
        log_dirs = opened.log_dirs
        self.cache = MetadataCache(config.node_id, config.inter_broker_listener_name)
        self.controllers = ControllerDirectory(
            config.controller_addresses,
            lambda address: environment.connect_rpc(address, keys),
            environment.random.random,
            self._controller_found,
        )
        self.channel = ControllerChannel(self.controllers)
        self.life = BrokerLife(
            identity=BrokerIdentity(
                broker_id=config.node_id,
                cluster_id=opened.cluster_id,
                listeners=config.advertised_listeners,
                metadata_log_dir=log_dirs.metadata_dir.directory_id,
                rack=config.broker_rack,
            ),
            incarnation_id=environment.new_id(),
            random=environment.random.random,
            settings=config.values.settings(BrokerLifeSettings, "broker."),
            channel=self.channel,
            online_directories=log_dirs.online_ids,
            applied_offset=lambda: self.feed.applied_offset,
            leads_in=self._leads_in,
            previous_broker_epoch=opened.previous_broker_epoch,
            on_shutdown_required=on_shutdown_required,
        )
        self.assignments = AssignmentSender(
            channel=self.channel,
            broker_id=config.node_id,
            broker_epoch=lambda: self.life.assigning_epoch,
            is_replica=self.cache.is_replica,
            random=environment.random.random,
        )
        self.registration = RegistrationCheck(
            config.node_id,
            broker_epoch=self.broker_epoch,
            directory_count=len(config.log_dirs),
            online_directories=log_dirs.online_ids,
            register_again=self.life.register_again,
        )
        self.publisher = MetadataPublisher(self.cache)
        self.feed = MetadataFeed(
            channel=self.channel,
            metadata_dir=log_dirs.metadata_dir,
            broker_id=config.node_id,
            cluster_id=opened.cluster_id,
            listener=self.publisher,
            on_fatal=on_fatal,
            monotonic_s=environment.monotonic_s,
            wall_ms=environment.wall_ms,
            settings=metadata_log_settings(config.values),
            is_forgotten=self.controllers.is_forgotten,
        )

    async def start(self) -> None:
        """Register, and learn the metadata up to there.

        The controller may have to be waited for; the copy of the metadata is read meanwhile.
        """
        self.life.start()
        await self.feed.start()

    def _controller_found(self) -> None:
        self.life.controller_found()
        self.assignments.controller_found()

    async def unfence(self) -> None:
        """Ask to be unfenced, and return when that is done."""
        self.life.ready_to_unfence()
        await self.life.wait_unfenced()

    async def stop(self) -> None:
        """Say and hear nothing more."""
        await self.feed.stop()
        self.publisher.stop()
        await self.assignments.stop()
        await self.life.stop()
        await self.channel.close()

    def broker_epoch(self) -> BrokerEpoch:
        """Return the epoch of the current registration; -1 before the first."""
        return self.life.broker_epoch

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Propose ISRs; raises ControllerUnavailableError."""
        return await self.channel.call(request, self._config.request_timeout_ms / 1000)

    def tell_degraded(self, degraded: DegradedLogDirs) -> None:
        """Tell the controller which online directories are full or slow."""
        self.life.directories_degraded(DirectoriesDegraded(**asdict(degraded)))

    def _leads_in(self, directory: DirectoryId) -> bool:
        """Return whether this broker leads something in a directory that has failed."""
        return self.cache.leads_in(directory) or any(
            # The controller has not heard yet that the replica was in there.
            map(self.cache.leads, self.assignments.pending_in(directory))
        )

"""Builds a broker from its parts; starts them in order of dependency, stops them backwards.

Start: directories, registration and metadata at the same time, logs, replicas, upkeep; then the
controller is asked to unfence this broker, and only then clients are served.

Stop: leadership is handed over, clients are sent away, followers stop, the directories are flushed,
marked as clean and unlocked.

Source: `kafka.server.BrokerServer`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from broker.assemblies.controller_link import ControllerLink
from broker.assemblies.coordinators import Coordinators
from broker.assemblies.disks import Disks
from broker.assemblies.encryption import Encryption
from broker.assemblies.front import Front
from broker.assemblies.replicas import Replicas
from broker.bounds.limits import LAST_WORD_S
from broker.bounds.resources import WantedResources, check, memory_limit, open_files_limit
from broker.compaction.settings import CleanerSettings
from broker.config import BrokerConfig
from broker.disk.life import OpenedLogDirs, open_log_dirs
from broker.metadata.dynamic_config import DynamicConfig
from jbodlab.config.dynamic_keys import CORDONED_LOG_DIRS
from jbodlab.config.key_table import Values
from jbodlab.runtime.environment import Environment
from jbodlab.runtime.machine import system_environment
from jbodlab.vocabulary.errors import JbodlabError

CONTROLLED_SHUTDOWN_TIMEOUT_S = 8.0
"""A container engine kills after ten seconds; Kafka waits five minutes."""

logger = logging.getLogger(__name__)


class BrokerStoppedError(JbodlabError):
    """The broker cannot go on; the text is the one line for the operator."""


class BrokerServer:
    """One broker process, from its configuration to its port.

    Args:
        config: The broker's.
        environment: Surroundings of the process; the machine by default.
        before_serving: Called once, when all is there that lives as long as the broker.
    """

    def __init__(
        self,
        config: BrokerConfig,
        environment: Environment | None = None,
        *,
        before_serving: Callable[[], object] = lambda: None,
    ) -> None:
        self._config = config
        self._before_serving = before_serving
        self._environment = environment or system_environment()
        self._failed = asyncio.Event()
        self._failure: str | None = None
        self._is_last_word_wanted = False

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until asked to stop.

        Raises:
            BrokerStoppedError: a directory without which no broker can be is gone, or the
                controller could not be told of one in time.
            JbodlabError: the directories cannot be used.
            OSError: a listener cannot be bound.
        """
        config = self._config
        directories = {*config.log_dirs, config.metadata_log_dir}
        cleaner = CleanerSettings.of(config.values)
        wanted = WantedResources(
            directories=len(directories),
            request_bytes=config.socket_request_max_bytes,
            queued_bytes=config.queued_max_request_bytes,
            key_map_bytes=cleaner.map_bytes if cleaner.is_enabled else 0,
        )
        self._open_files = check(wanted, open_files_limit(), memory_limit())
        self._encryption = Encryption(config, self._environment)
        opened = await open_log_dirs(
            node_id=self._config.node_id,
            log_dirs=self._config.log_dirs,
            metadata_log_dir=self._config.metadata_log_dir,
            on_fatal=self._fatal,
            environment=self._environment,
            open_files_max=self._open_files.kept_per_directory,
        )
        self._build(opened)
        self._connect()
        starting = asyncio.create_task(self._start(), name="start")
        ending = [
            asyncio.create_task(_wait(stop), name="stop"),
            asyncio.create_task(_wait(self._failed), name="failure"),
        ]
        try:
            await asyncio.wait([starting, *ending], return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                await asyncio.wait(ending, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (starting, *ending):
                task.cancel()
            await asyncio.gather(starting, *ending, return_exceptions=True)
            if self._is_last_word_wanted:
                await self._link.life.leave_at_once(LAST_WORD_S)
            else:
                await self._stop()
        if self._failure is not None:
            raise BrokerStoppedError(self._failure)

    def _build(self, opened: OpenedLogDirs) -> None:
        """Make the parts, those first that others need; nothing runs yet."""
        config = self._config
        self._dynamic = DynamicConfig(config.node_id, config.values, config.log_dirs)
        self._link = ControllerLink(
            config,
            opened,
            environment=self._environment,
            keys=self._encryption.keys,
            on_fatal=self._fatal,
            on_shutdown_required=self._shutdown_required,
        )
        self._disks = Disks(
            config,
            opened,
            environment=self._environment,
            on_degraded=self._link.tell_degraded,
            on_cordoned=self._link.life.directories_cordoned,
        )
        self._replicas = Replicas(
            config,
            self._dynamic.values,
            self._disks,
            self._link,
            self._environment,
            self._encryption.peers,
        )
        self._coordinators = Coordinators(
            config, self._replicas, self._link, self._environment, self._encryption.peers
        )
        self._disks.watch(
            self._replicas.manager,
            self._replicas.manager.roles.returning,
            lambda: self._replicas.loading_rules(self._link.feed.image),
        )
        self._front = Front(
            config,
            opened.cluster_id,
            environment=self._environment,
            open_files=self._open_files,
            dynamic=self._dynamic,
            disks=self._disks,
            link=self._link,
            replicas=self._replicas,
            coordinators=self._coordinators,
            encryption=self._encryption,
        )

    def _connect(self) -> None:
        """Say who hears of what, and in which order; all of it is here."""
        disks, link, replicas = self._disks, self._link, self._replicas
        roles = replicas.manager.roles
        # A directory fails: the replicas in it stop, the controller is told, then what follows.
        for failed in (
            roles,
            link.life,
            replicas.reports,
            disks.conditions,
            disks.cleaner,
        ):
            disks.log_dirs.add_failure_listener(failed)
        # One returns: the replicas first, as what follows depends on where they are now.
        for back in (
            disks.cordon,
            roles.returning,
            disks.conditions,
            disks.probe,
            link.life,
            replicas.reports,
        ):
            disks.log_dirs.add_return_listener(back)
        # One is full or slow, or no longer; the controller hears of all of them together.
        disks.conditions.add_listener(roles)
        # The metadata changes: settings and replicas, then what clients are told, who
        # waits for other leaders, then groups and reports.
        link.publisher.publish_to(
            internal_listeners=[self._dynamic, roles],
            listeners_after_clients=[
                self._coordinators.groups,
                self._front.produce_forwarder,
                self._front.user_sessions,
                replicas.reports,
                link.registration,
                link.controllers,
            ],
        )
        # Settings change: the replicas', then the directories'.
        self._dynamic.add_listener(replicas.use_settings)
        self._dynamic.add_listener(disks.use_settings)
        self._dynamic.add_listener(self._cordon)
        self._dynamic.add_listener(self._front.use_settings)
        self._dynamic.add_listener(self._encryption.use_settings)

    async def _start(self) -> None:
        disks, link, replicas = self._disks, self._link, self._replicas
        self._encryption.watch.start()
        await self._front.read_keys()
        await self._front.start_metrics()
        await link.start()
        replicas.manager.placement.note_earlier(link.feed.image, self._config.node_id)
        await link.life.wait_caught_up()
        # Before anything is loaded or placed by them.
        self._dynamic.update(link.feed.image)
        await replicas.load(link.feed.image)
        await disks.look()
        replicas.start()
        link.feed.begin_publishing()
        # Changes since the logs were loaded have taken replicas away that nobody will ask for.
        replicas.manager.placement.put_strays_aside(
            replicas.loading_rules(link.feed.image).replica_of
        )
        await disks.start()
        await replicas.reports.all_known()
        await link.unfence()
        self._before_serving()
        await self._front.start()
        logger.info("broker %d serves clients", self._config.node_id)

    async def _stop(self) -> None:
        """Stop in an orderly way; parts that were not started have nothing to stop."""
        if self._config.controlled_shutdown_enable and self._failure is None:
            self._replicas.manager.roles.begin_shutdown()
            await self._link.life.controlled_shutdown(CONTROLLED_SHUTDOWN_TIMEOUT_S)
        await self._front.stop()
        await self._coordinators.stop()
        await self._disks.stop_upkeep()
        await self._link.stop()
        await self._replicas.stop()
        await self._disks.stop(self._link.broker_epoch())
        await self._encryption.watch.stop()

    def _cordon(self, values: Values) -> None:
        if self._disks.cordon.apply(values.text(CORDONED_LOG_DIRS)):
            self._replicas.manager.roles.directories_opened()

    def _fatal(self, line: str) -> None:
        """End the process: it lost what it cannot be without."""
        self._is_last_word_wanted = True
        self._shutdown_required(line)

    def _shutdown_required(self, reason: str) -> None:
        if self._failure is None:
            self._failure = reason
            self._failed.set()


async def _wait(event: asyncio.Event) -> None:
    await event.wait()

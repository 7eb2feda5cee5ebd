"""Builds a controller from its parts; starts them in order of dependency, stops them backwards."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
from functools import partial
from pathlib import Path
from typing import Any

import grpc.aio

from controller import periodic
from controller.active_controller import ActiveController
from controller.config import ControllerConfig
from controller.heartbeats import Heartbeats
from controller.log_thread import LogThread
from controller.metadata_dir import OpenedDir, open_metadata_dir
from controller.metadata_dir_watch import watch_metadata_dir
from controller.metadata_stream import MetadataStream
from controller.metrics import ControllerMetrics
from controller.service import ControllerService
from controller.snapshotter import ControllerSnapshotter
from controller.state import ControllerSettings, ControllerState
from jbodlab.errors import ConfigError
from jbodlab.ids import Offset
from jbodlab.metrics_endpoint import MetricsEndpoint
from jbodlab.outside import Outside, real
from jbodlab.requests import Listener
from jbodlab.rpc.controller_pb2_grpc import add_ControllerServicer_to_server
from jbodlab.supervised import supervised

logger = logging.getLogger(__name__)

MESSAGE_SIZE_BYTES_MAX = 64 << 20
CALLS_MAX = 5_000
"""Calls in progress, streams included; above what the queue holds, so that heartbeats get past a
full one. Others are refused with RESOURCE_EXHAUSTED."""
STOP_GRACE_S = 1.0
"""Time for answers on their way when the controller stops."""
CLOSE_DEADLINE_S = 5.0
"""Longest wait for the files of the metadata log at a stop."""

OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_SIZE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_SIZE_BYTES_MAX),
    # Two controllers must never share a port.
    ("grpc.so_reuseport", 0),
    # Brokers may ping as often as they like.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 100),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
)


class ControllerServer:
    """One controller process, from its configuration to its port.

    Args:
        config: The controller's.
        outside: What it is in; the machine by default.
    """

    def __init__(self, config: ControllerConfig, outside: Outside | None = None) -> None:
        self._config = config
        self._outside = outside or real()
        self._incarnation_id = self._outside.new_id()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until asked to stop.

        Raises:
            ConfigError: the port cannot be used.
            JbodlabError: the metadata directory cannot be used.
            LogDirError: the metadata directory failed while serving.
            OSError: it failed before.
        """
        addresses = _addresses(self._config.listener)
        log_thread = LogThread(self._outside.threads)
        try:
            opened = await log_thread.run(
                partial(open_metadata_dir, self._config, self._incarnation_id, self._outside)
            )
            # Everything that was answered is on the disk, so an error leaves nothing to save.
            await self._serve(opened, log_thread, addresses, stop)
            async with asyncio.timeout(CLOSE_DEADLINE_S):
                await log_thread.run(opened.log.close)
            os.close(opened.lock_fd)
        finally:
            log_thread.stop()

    async def _serve(
        self,
        opened: OpenedDir,
        log_thread: LogThread,
        addresses: list[str],
        stop: asyncio.Event,
    ) -> None:
        config, outside = self._config, self._outside
        stream = MetadataStream(opened.log, log_thread, Offset(opened.log.end_offset))
        controller = ActiveController(
            log=opened.log,
            log_thread=log_thread,
            state=initial_state(config, opened, outside.monotonic_ms()),
            epoch=opened.epoch,
            listener=stream,
            now_ms=outside.monotonic_ms,
            wall_ms=outside.wall_ms,
        )
        snapshotter = ControllerSnapshotter(
            controller=controller,
            log=opened.log,
            log_thread=log_thread,
            settings=config.metadata_log,
            appended_bytes=opened.replayed_bytes,
            threads=outside.threads,
            monotonic_s=outside.monotonic_s,
        )
        service = ControllerService(
            controller=controller,
            stream=stream,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
            randomness=outside.random,
            new_id=outside.new_id,
        )
        server = _bound_server(service, addresses)
        metrics = None
        if config.metrics is not None:
            collect = ControllerMetrics(controller, snapshotter.snapshots)
            metrics = MetricsEndpoint(config.metrics, collect)
            await metrics.start()
        watch = watch_metadata_dir(
            Path(config.node.metadata_log_dir),
            opened.log.directory,
            log_thread,
            interval_ms=config.probe_interval_ms,
        )
        tasks = [asyncio.create_task(each) for each in (controller.run(), snapshotter.run(), watch)]
        periodic_tasks = start_periodic(config, controller)
        await server.start()
        logger.info("serves brokers", extra={"addresses": ", ".join(addresses)})
        try:
            await _until_one_ends(tasks, stop)
        finally:
            if metrics is not None:
                await metrics.close()
            await server.stop(STOP_GRACE_S if stop.is_set() else None)
            for each in (*tasks, *periodic_tasks):
                each.cancel()
            await asyncio.gather(*tasks, *periodic_tasks, return_exceptions=True)


async def _until_one_ends(tasks: list[asyncio.Task[None]], stop: asyncio.Event) -> None:
    """Wait until a stop is asked for; a task only ever ends by an error, which goes through."""
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
    finally:
        stopping.cancel()


def start_periodic(
    config: ControllerConfig, controller: ActiveController
) -> list[asyncio.Task[None]]:
    """Start what a controller does without being asked; what one run raises ends no task."""
    tasks = [
        supervised(
            partial(
                periodic.fence_stale_brokers,
                controller,
                config.session_timeout_ms,
                config.heartbeat_interval_ms,
            ),
            name="fencing",
        ),
        supervised(
            partial(periodic.elect_uncleanly, controller, config.unclean_election_interval_ms),
            name="unclean elections",
        ),
    ]
    if config.idle_interval_ms > 0:
        write_no_ops = partial(periodic.write_no_ops, controller, config.idle_interval_ms)
        tasks.append(supervised(write_no_ops, name="records of an idle controller"))
    if config.auto_leader_rebalance_enable:
        balance = partial(
            periodic.balance_leaders, controller, config.leader_imbalance_check_interval_ms
        )
        tasks.append(supervised(balance, name="balancing of leaders"))
    return tasks


def initial_state(config: ControllerConfig, opened: OpenedDir, now_ms: int) -> ControllerState:
    """Return the state of a controller that has just become active: everybody is there."""
    return ControllerState(
        image=opened.image,
        heartbeats=Heartbeats.at_activation(
            opened.image.cluster.brokers, config.session_timeout_ms, now_ms
        ),
        settings=ControllerSettings(
            cluster_id=opened.cluster_id,
            node_id=config.node.node_id,
            num_partitions=config.num_partitions,
            default_replication_factor=config.default_replication_factor,
            delete_topic_enable=config.delete_topic_enable,
            static_configs=config.static_configs,
        ),
        next_offset=Offset(opened.log.end_offset),
    )


def _addresses(listener: Listener) -> list[str]:
    """Return what to bind for a listener, as `host:port` with numeric hosts.

    Each address is tried here, because gRPC is content when one of several can be bound, and does
    not say what is wrong with the others.

    Raises:
        ConfigError: an address cannot be bound, or the host is unknown.
    """
    host = listener.host or "0.0.0.0"
    where = f"{listener.name}://{listener.host}:{listener.port}"
    try:
        found = socket.getaddrinfo(
            host, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise ConfigError("listeners", where, f"unknown host: {error}") from error
    addresses = []
    for family, _, _, _, address in found:
        try:
            _try(family, address)
        except OSError as error:
            if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT) and len(found) > 1:
                # A name may have an address that this machine has not, such as ::1.
                continue
            raise ConfigError("listeners", where, f"cannot be bound: {error}") from error
        numeric = f"[{address[0]}]" if family == socket.AF_INET6 else str(address[0])
        if f"{numeric}:{listener.port}" not in addresses:
            addresses.append(f"{numeric}:{listener.port}")
    if not addresses:
        raise ConfigError("listeners", where, "none of its addresses can be bound")
    return addresses


def _try(family: int, address: Any) -> None:
    with contextlib.closing(socket.socket(family, socket.SOCK_STREAM)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        probe.bind(address)


def _bound_server(service: ControllerService, addresses: list[str]) -> grpc.aio.Server:
    server = grpc.aio.server(options=OPTIONS, maximum_concurrent_rpcs=CALLS_MAX)
    add_ControllerServicer_to_server(service, server)  # type: ignore[no-untyped-call]
    for address in addresses:
        _bind(server, address)
    return server


def _bind(server: grpc.aio.Server, address: str) -> None:
    try:
        port = server.add_insecure_port(address)
    except RuntimeError as error:
        raise ConfigError("listeners", address, f"cannot be bound: {error}") from error
    if port == 0:
        raise ConfigError("listeners", address, "cannot be bound")

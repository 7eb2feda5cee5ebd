"""Controllers of a running cluster of our own come and go, one at a time (KIP-853).

A cluster of one controller, which speaks to brokers only, becomes a quorum first: the controller
gets a second port for other controllers, and is started anew. Brokers reach it where they did. Then
its level of kraft.version is raised, so that its log names the voters. Both are done once, and the
cluster stays a quorum, be it of one.

A controller whose disk died comes back with an empty directory, which has an id of its own. Where
the log names the voters it is another voter then: the former one is removed first, as their ids are
unique. Fixed voters have no directories, and it is the same one, which gives no vote before it has
caught up.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from jbodlab.kafka_admin.errors import AdminError
from jbodlab.vocabulary import kafka_uuid, properties
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch
from lab.cluster import layout
from lab.cluster import security as closed
from lab.cluster.cluster import Cluster
from lab.cluster.node import Node
from lab.errors import LabError
from lab.machine import disks
from lab.machine.ports import HeldPorts
from lab.machine.waiting import NotInTimeError, wait_for

if TYPE_CHECKING:
    from uuid import UUID

    from jbodlab.kafka_admin.client import AdminClient

DEADLINE_S = 60.0
ASK_S = 20.0
CONTROLLER, VOTERS, BOOTSTRAP = (
    "CONTROLLER",
    "controller.quorum.voters",
    "controller.quorum.bootstrap.servers",
)
OF_QUORUM = (
    "controller.listener.names",
    "listener.security.protocol.map",
    layout.GRPC_SERVERS,
    "super.users",
)
OF_NODE = ("node.id", "listeners", "log.dirs", "metadata.log.dir", "ssl.keystore.location")


def add(cluster: Cluster) -> Node:
    """Start one more controller, and make it a voter as soon as it has the log.

    Raises:
        LabError: the cluster is none of our own servers, or a step failed.
        NotInTimeError: a step took too long.
    """
    _check(cluster)
    _make_quorum(cluster)
    ports = HeldPorts.hold(2)
    node = cluster.take_controller(layout.next_controller(cluster.state, ports.numbers), ports)
    try:
        # It has the settings that the others were started with.
        settings = properties.parse(cluster.controller.properties_file.read_text("utf-8"))
        own = properties.parse(layout.property_file(cluster.state, node.state))
        settings |= {key: own[key] for key in OF_NODE if key in own}
        _write(cluster, node, properties.render(settings))
        for each in cluster.nodes.values():
            _rewrite(cluster, each, is_static=False)
        if cluster.spec.security:
            closed.admit(cluster.state, node.state, cluster.user)
        disks.make_plain([node.metadata_dir], cluster.user)
        cluster.format([node])
        node.start()
        _make_voter(cluster, node)
    except BaseException:
        node.kill()
        _forget(cluster, node)
        raise
    return node


def remove(cluster: Cluster, node: Node) -> None:
    """Make a controller no voter any more, end it, and remove its files.

    Raises:
        LabError: it is the last one, or a step failed.
        NotInTimeError: a step took too long; the controller is a voter or not.
    """
    _check(cluster)
    if len(cluster.controllers) < 2:
        raise LabError(f"{node.name} is the only controller")
    _make_quorum(cluster)
    _make_no_voter(cluster, node)
    node.stop()
    _forget(cluster, node)


def replace_disk(cluster: Cluster, node: Node) -> str:
    """Give a controller an empty directory in place of its own; returns the id of the new one.

    Faults of its directory are healed, as a new disk has none. Nothing is deleted before the others
    go on without it.

    Raises:
        LabError: it is the only one, nobody leads without it, or a step failed.
        FaultError: a fault of its directory could not be healed.
        NotInTimeError: it has not caught up in time; it goes on to do so.
    """
    _check(cluster)
    if len(cluster.controllers) < 2:
        raise LabError(f"{node.name} is the only controller, and nobody else has its log")
    cluster.faults.heal_all(under=node.folder)
    if was_running := node.is_running:
        node.stop()
    try:
        found = wait_for(f"another active controller than {node.id}", cluster.quorum, DEADLINE_S)
        is_fixed = not found.directory_ids
        if is_fixed:
            _wait_committed(cluster, node)
        else:
            _make_no_voter(cluster, node)
    except (LabError, NotInTimeError):
        if was_running:
            node.start()
        raise
    try:
        if node.metadata_dir.exists():
            shutil.rmtree(node.metadata_dir)
        disks.make_plain([node.metadata_dir], cluster.user)
    except OSError as error:
        raise LabError(f"the directory of {node.name} cannot be emptied: {error}") from error
    cluster.format([node])
    if is_fixed:
        node.start()
        _wait_caught_up(cluster, node)
    else:
        _rewrite(cluster, node, is_static=False)
        node.start()
        _make_voter(cluster, node)
    return _directory_id(node)


def _wait_committed(cluster: Cluster, node: Node) -> None:
    """Wait until the others commit without a controller that has ended.

    An active one that nobody follows any more says so for a while, and an answer of the one that
    has ended may have arrived late. The second commit is by others alone.
    """
    for _ in range(2):
        begun = wait_for("an active controller", cluster.quorum, DEADLINE_S).high_watermark

        def is_later(begun: int = begun) -> bool:
            found = cluster.quorum()
            return found is not None and found.high_watermark > begun

        wait_for(f"a commit without controller {node.id}", is_later, DEADLINE_S)


def _wait_caught_up(cluster: Cluster, node: Node) -> None:
    # The leader may still tell where the log of the former directory ended; an idle one goes on.
    begun = wait_for("an active controller", cluster.quorum).high_watermark

    def has_caught_up() -> bool:
        found = cluster.quorum()
        return found is not None and found.end_offsets.get(node.id, -1) > begun

    wait_for(f"controller {node.id} having the log", has_caught_up, DEADLINE_S)


def transfer(cluster: Cluster, node: Node) -> int:
    """Have a controller be active; returns its leader epoch.

    Raises:
        LabError: the cluster has no other controller, or this one does not run.
        NotInTimeError: another one leads all the same.
    """
    _check(cluster)
    if len(cluster.controllers) < 2:
        raise LabError(f"{node.name} is the only controller")
    if not node.is_running:
        raise LabError(f"{node.name} does not run")

    def leads() -> int | None:
        found = cluster.quorum()
        if found is None:
            return None
        if found.leader_id == node.id:
            return found.leader_epoch
        _resign(cluster, cluster.nodes[found.leader_id], found.leader_epoch, node.id)
        return None

    return wait_for(f"controller {node.id} being active", leads, DEADLINE_S)


def _resign(cluster: Cluster, leader: Node, epoch: int, successor: int) -> None:
    import grpc

    from jbodlab.controller_api.grpc_transport import ControllerStub, channel_credentials
    from jbodlab.controller_api.requests import Caller, ResignLeadershipRequest
    from jbodlab.controller_api.translate import to_proto
    from lab.cluster.rights import ADMIN

    request = ResignLeadershipRequest(
        leader_epoch=LeaderEpoch(epoch), successor=BrokerId(successor)
    )
    state = leader.state
    address = f"{state.host}:{state.grpc_port}"
    if cluster.spec.security:
        # A controller listens to brokers only, which pass on what the administrator asks for.
        request = structs.replace(
            request, caller=Caller(principal=f"User:{ADMIN}", host=state.host)
        )
        keys = closed.keys_of(cluster.state, cluster.brokers[0].state)
        channel = grpc.secure_channel(address, channel_credentials(keys))
    else:
        channel = grpc.insecure_channel(address)
    # Another one may lead by now.
    with channel, contextlib.suppress(grpc.RpcError):
        ControllerStub(channel).ResignLeadership(to_proto(request), timeout=ASK_S)


def _make_voter(cluster: Cluster, node: Node) -> None:
    directory_id = kafka_uuid.parse(_directory_id(node))
    listeners = (
        (CONTROLLER, node.state.host, node.state.port),
        (closed.GRPC, node.state.host, node.state.grpc_port),
    )
    _carry_out(
        cluster,
        f"controller {node.id} being a voter",
        lambda client: _added(client, node.id, directory_id, listeners),
    )


def _make_no_voter(cluster: Cluster, node: Node) -> None:
    """Remove a voter by the directory that the log names; its disk need not be readable."""
    own = wait_for("an active controller", cluster.quorum).directory_ids.get(node.id)
    if own is None:
        return
    _carry_out(
        cluster,
        f"controller {node.id} being no voter",
        lambda client: _removed(client, node.id, own),
    )


def _forget(cluster: Cluster, node: Node) -> None:
    cluster.drop_controller(node)
    for each in cluster.nodes.values():
        _rewrite(cluster, each, is_static=False)
    shutil.rmtree(node.folder, ignore_errors=True)
    node.properties_file.unlink(missing_ok=True)
    closed.dismiss(cluster.state, node.state)


def _check(cluster: Cluster) -> None:
    if cluster.engine.is_kafka:
        raise LabError("controllers of jbodlab's engine only come and go")


def _make_quorum(cluster: Cluster) -> None:
    """Give the only controller a port for others, and have the log name the voters."""
    first = cluster.controllers[0]
    if not first.state.grpc_port:
        ports = HeldPorts.hold(1)
        cluster.move_controller(first, ports)
        _rewrite(cluster, first, is_static=True)
        if first.is_running:
            first.stop()
            first.start()
        cluster.wait_served()
    if wait_for("an active controller", cluster.quorum).directory_ids:
        return
    _carry_out(cluster, "kraft.version 1", _raised)


def _rewrite(cluster: Cluster, node: Node, *, is_static: bool) -> None:
    """Have a node find all controllers from its next start on, by a property file of its own."""
    known = properties.parse(node.properties_file.read_text("utf-8"))
    wanted = properties.parse(layout.property_file(cluster.state, node.state))
    known |= {key: wanted[key] for key in OF_QUORUM if key in wanted}
    if node.state.role == "controller":
        known["listeners"] = wanted["listeners"]
    if is_static:
        known[VOTERS] = wanted[VOTERS]
    else:
        known.pop(VOTERS, None)
        known[BOOTSTRAP] = ",".join(map(layout.controller_address, cluster.state.controllers))
    _write(cluster, node, properties.render(known))


def _write(cluster: Cluster, node: Node, text: str) -> None:
    part = node.properties_file.with_suffix(".part")
    part.touch(mode=0o600)
    part.write_text(text, "utf-8")
    cluster.own(part)
    part.rename(node.properties_file)


def _directory_id(node: Node) -> str:
    path = Path(node.metadata_dir) / "meta.properties"
    return properties.parse(path.read_text("utf-8"))["directory.id"]


def _carry_out(
    cluster: Cluster, what: str, ask: Callable[[AdminClient], Coroutine[Any, Any, object]]
) -> None:
    """Ask brokers for a change until it is made; a refusal may be one of the moment."""
    from lab.cluster import questions

    refusals = ["no broker answers"]

    async def asked() -> bool:
        for broker in cluster.brokers:
            if not broker.is_running:
                continue
            try:
                await questions.once(broker.state, ASK_S, ask)
            except (AdminError, OSError, TimeoutError) as error:
                refusals.append(str(error))
            else:
                return True
        return False

    try:
        wait_for(what, lambda: asyncio.run(asked()), DEADLINE_S)
    except NotInTimeError as error:
        raise LabError(f"{what}: {refusals[-1]}") from error


async def _added(client: AdminClient, node_id: int, own: UUID, listeners: Any) -> None:
    from jbodlab.kafka_admin.errors import RequestError
    from jbodlab.kafka_admin.quorum import add_voter
    from jbodlab.vocabulary.error_code import ErrorCode

    try:
        await add_voter(client, node_id, own, listeners, ASK_S)
    except RequestError as error:
        # The first answer may have been lost.
        if error.code is not ErrorCode.DUPLICATE_VOTER:
            raise


async def _removed(client: AdminClient, node_id: int, own: UUID) -> None:
    from jbodlab.kafka_admin.errors import RequestError
    from jbodlab.kafka_admin.quorum import remove_voter
    from jbodlab.vocabulary.error_code import ErrorCode

    try:
        await remove_voter(client, node_id, own, ASK_S)
    except RequestError as error:
        if error.code is not ErrorCode.VOTER_NOT_FOUND:
            raise


async def _raised(client: AdminClient) -> None:
    from jbodlab.kafka_admin.features import raise_feature

    await raise_feature(client, "kraft.version", 1, ASK_S)

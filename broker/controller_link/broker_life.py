"""Registration and heartbeats: carries out what `BrokerLifeRules` say.

This shell sends, waits and keeps the timer; it decides nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Protocol, assert_never
from uuid import UUID

import msgspec

from broker.bounds.limits import LAST_WORD_PAUSE_S
from broker.controller_link import broker_life_events as events
from broker.controller_link.broker_life_events import (
    LifeMilestone,
    RequireShutdown,
    SendHeartbeat,
    SendRegistration,
)
from broker.controller_link.broker_life_rules import (
    BrokerLifeRules,
    BrokerLifeSettings,
    BrokerState,
)
from broker.controller_link.channel import ControllerChannel
from jbodlab.controller_api.requests import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    Feature,
)
from jbodlab.metadata.records.features import SUPPORTED
from jbodlab.runtime.supervised import end_tasks
from jbodlab.vocabulary.endpoint import Endpoint
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import ControllerUnavailableError, DecodeError, LogDirError
from jbodlab.vocabulary.ids import UNKNOWN_BROKER_EPOCH, BrokerEpoch, BrokerId, DirectoryId, Offset
from jbodlab.vocabulary.loop_clock import call_at_ms, loop_ms

logger = logging.getLogger(__name__)

SUPPORTED_FEATURES = tuple(
    Feature(name=name, min_supported_version=low, max_supported_version=high)
    for name, (low, high) in sorted(SUPPORTED.items())
)


class BrokerIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """A broker's description of itself in its registration."""

    broker_id: BrokerId
    cluster_id: str
    listeners: tuple[Endpoint, ...]
    metadata_log_dir: DirectoryId | None = None
    rack: str | None = None
    features: tuple[Feature, ...] = SUPPORTED_FEATURES


class FormerLogDir(Protocol):
    """A directory that failed; `broker.disk.directory.log_dir.LogDir` is one."""

    @property
    def directory_id(self) -> DirectoryId | None:
        """None if it was never readable."""


class BrokerLife:
    """Keeps this broker known to the controller; also hears of directories that fail or return.

    Args:
        identity: The broker's identity.
        incarnation_id: Of this process.
        settings: Timing.
        random: A number of [0, 1), which spreads what is tried again.
        channel: To the controller.
        online_directories: Ids of the online log directories, sorted; asked at each registration.
        applied_offset: Last metadata offset that this broker has applied.
        leads_in: Whether this broker leads a partition in a directory, as the metadata has it;
            asked when a failed directory could not be reported in time.
        previous_broker_epoch: Of the last clean shutdown, -1 if unknown.
        on_shutdown_required: Called with a reason when the process must stop.
    """

    def __init__(
        self,
        *,
        identity: BrokerIdentity,
        incarnation_id: UUID,
        settings: BrokerLifeSettings,
        random: Callable[[], float],
        channel: ControllerChannel,
        online_directories: Callable[[], tuple[DirectoryId, ...]],
        applied_offset: Callable[[], int],
        leads_in: Callable[[DirectoryId], bool],
        previous_broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH,
        on_shutdown_required: Callable[[str], None],
    ) -> None:
        self.incarnation_id = incarnation_id
        self._identity = identity
        self._channel = channel
        self._online_directories = online_directories
        self._applied_offset = applied_offset
        self._previous_broker_epoch = previous_broker_epoch
        self._on_shutdown_required = on_shutdown_required
        self._timeout_s = settings.session_timeout_ms / 2 / 1000
        self._core = BrokerLifeRules(settings, leads_in=leads_in, random=random)
        self._milestones = {each: asyncio.Event() for each in LifeMilestone}
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._last_complaint = ""

    @property
    def broker_epoch(self) -> BrokerEpoch:
        """The epoch of the current registration; -1 before the first."""
        return self._core.broker_epoch

    @property
    def assigning_epoch(self) -> BrokerEpoch:
        """The epoch for reports of replicas' directories; -1 while a registration is due.

        The controller would take a replica that a directory has moved to another one, after it
        failed and came back, for one that begins empty as long as it takes the first for failed.
        """
        return UNKNOWN_BROKER_EPOCH if self._core.is_registration_due else self.broker_epoch

    @property
    def state(self) -> BrokerState:
        """Where this broker is in its life."""
        return self._core.state

    @property
    def is_fenced(self) -> bool:
        """Whether the controller takes this broker for fenced, as its last answer said."""
        return self._core.is_fenced

    def start(self) -> None:
        """Begin to register; on the running loop."""
        self._handle(events.Started())

    def ready_to_unfence(self) -> None:
        """Ask to be unfenced from now on: caught up, and the replicas run."""
        self._handle(events.ReadyToUnfence())

    def log_dir_failed(self, log_dir: object, error: LogDirError) -> None:
        """Tell the controller at once that a directory is gone."""
        if error.directory_id is None:
            logger.error("cannot report the failure of a directory without an id: %s", error)
        else:
            self._handle(events.DirectoryFailed(error.directory_id))

    def log_dir_returned(
        self, former: FormerLogDir, log_dir: object, logs: Sequence[object]
    ) -> None:
        """Register once more, with a directory that was revived."""
        del log_dir, logs
        self._handle(events.DirectoryRevived(former.directory_id))

    def directories_degraded(self, degraded: events.DirectoriesDegraded) -> None:
        """Tell the controller at once which online directories are full or slow."""
        self._handle(degraded)

    def directories_cordoned(self, cordoned: tuple[DirectoryId, ...]) -> None:
        """Tell the controller at once which directories get no new replicas."""
        self._handle(events.DirectoriesCordoned(cordoned))

    def controller_found(self) -> None:
        """Tell another controller that has become active at once how this broker is."""
        self._handle(events.ControllerFound())

    def register_again(self) -> None:
        """Say anew who we are, in the same epoch: the registration lacks something."""
        self._handle(events.RegistrationOutdated())

    async def wait_caught_up(self) -> None:
        """Return when the controller says that this broker knows its own registration."""
        await self._milestones[LifeMilestone.CAUGHT_UP].wait()

    async def wait_unfenced(self) -> None:
        """Return when the controller has unfenced this broker."""
        await self._milestones[LifeMilestone.UNFENCED].wait()

    async def controlled_shutdown(self, timeout_s: float) -> bool:
        """Hand leadership over and leave; then this broker sends nothing any more.

        Returns:
            Whether the controller let it go within the time.
        """
        self._handle(events.ShutdownBegun(controlled=True))
        try:
            async with asyncio.timeout(timeout_s):
                await self._milestones[LifeMilestone.SHUTDOWN_ALLOWED].wait()
        except TimeoutError:
            logger.warning(
                "the controller did not allow controlled shutdown within %s s", timeout_s
            )
            self._handle(events.ShutdownBegun(controlled=False))
            return False
        return True

    async def leave_at_once(self, timeout_s: float) -> None:
        """Ask to be fenced now, as the last word of a process that cannot go on.

        Without it the others would wait for the session timeout before they take over. Where the
        active controller dies in the same moment, the next one has to hear it.
        """
        self._handle(events.ShutdownBegun(controlled=False))
        if self.broker_epoch == UNKNOWN_BROKER_EPOCH:
            return
        last_word = SendHeartbeat(want_fence=True, want_shut_down=True, offline_log_dirs=())
        try:
            async with asyncio.timeout(timeout_s):
                await self._repeat_until_answered(last_word, timeout_s)
        except TimeoutError:
            logger.warning("no controller accepted the last heartbeat within %s s", timeout_s)

    async def _repeat_until_answered(self, heartbeat: SendHeartbeat, timeout_s: float) -> None:
        while True:
            try:
                await self._channel.call(self._heartbeat(heartbeat), timeout_s)
            except (ControllerUnavailableError, DecodeError) as error:
                self._complain("last heartbeat", str(error))
            else:
                return
            await asyncio.sleep(LAST_WORD_PAUSE_S)

    async def stop(self) -> None:
        """End without a further word."""
        self._handle(events.ShutdownBegun(controlled=False))
        task, self._task = self._task, None
        await end_tasks([task])

    def _handle(self, event: events.Event) -> None:
        before = self._core.state
        for instruction in self._core.handle(event, loop_ms()):
            self._carry_out(instruction)
        if self._core.state is not before:
            logger.info("broker state is %s", self._core.state.name)
        self._set_timer()

    def _carry_out(self, instruction: events.Instruction) -> None:
        match instruction:
            case SendRegistration():
                self._communicate(self._register(), "broker registration")
            case SendHeartbeat():
                self._communicate(self._send_heartbeat(instruction), "broker heartbeat")
            case LifeMilestone():
                self._milestones[instruction].set()
            case RequireShutdown():
                logger.error("shutting down: %s", instruction.reason)
                self._on_shutdown_required(instruction.reason)
            case _:
                assert_never(instruction)

    def _communicate(self, communication: Coroutine[None, None, None], name: str) -> None:
        self._task = asyncio.create_task(communication, name=name)
        self._task.add_done_callback(self._communication_ended)

    def _communication_ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._broke(error)

    def _broke(self, error: BaseException) -> None:
        """A fault of this program: without heartbeats the broker would be fenced in silence."""
        logger.error("communication with the controller failed", exc_info=error)
        self._on_shutdown_required(f"communication with the controller failed: {error!r}")

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        wakeup_ms = self._core.next_wakeup_ms
        if wakeup_ms is not None:
            self._timer = call_at_ms(wakeup_ms, self._time_has_come)

    def _time_has_come(self) -> None:
        try:
            self._handle(events.Tick())
        except Exception as error:  # noqa: BLE001 - logged there
            self._broke(error)

    async def _register(self) -> None:
        request = BrokerRegistrationRequest(
            broker_id=self._identity.broker_id,
            cluster_id=self._identity.cluster_id,
            incarnation_id=self.incarnation_id,
            listeners=self._identity.listeners,
            features=self._identity.features,
            rack=self._identity.rack,
            log_dirs=self._online_directories(),
            previous_broker_epoch=self._previous_broker_epoch,
            cordoned_log_dirs=self._core.cordoned,
        )
        try:
            response = await self._channel.call(request, self._timeout_s)
        except (ControllerUnavailableError, DecodeError) as error:
            self._complain("registration", str(error))
            self._handle(events.ControllerUnreachable())
            return
        if response.error_code is not ErrorCode.NONE:
            self._complain("registration", f"{response.error_code.name}: {response.error_message}")
            self._handle(events.RegistrationRefused(response.error_code))
            return
        self._last_complaint = ""
        # A later registration of this process does not follow a clean shutdown.
        self._previous_broker_epoch = UNKNOWN_BROKER_EPOCH
        logger.info("registered with broker epoch %d", response.broker_epoch)
        self._handle(events.Registered(response.broker_epoch))

    async def _send_heartbeat(self, heartbeat: SendHeartbeat) -> None:
        request = self._heartbeat(heartbeat)
        try:
            response = await self._channel.call(request, self._timeout_s)
        except (ControllerUnavailableError, DecodeError) as error:
            self._complain("heartbeat", str(error))
            self._handle(events.ControllerUnreachable())
            return
        if response.error_code is not ErrorCode.NONE:
            self._complain("heartbeat", f"{response.error_code.name}: {response.error_message}")
            self._handle(events.HeartbeatRefused(response.error_code))
            return
        self._last_complaint = ""
        self._handle(
            events.HeartbeatAnswered(
                is_caught_up=response.is_caught_up,
                is_fenced=response.is_fenced,
                should_shut_down=response.should_shut_down,
            )
        )

    def _heartbeat(self, heartbeat: SendHeartbeat) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(
            broker_id=self._identity.broker_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=Offset(self._applied_offset()),
            want_fence=heartbeat.want_fence,
            want_shut_down=heartbeat.want_shut_down,
            offline_log_dirs=heartbeat.offline_log_dirs,
            degraded_log_dirs=heartbeat.degraded.degraded,
            full_log_dirs=heartbeat.degraded.full,
            tolerated_log_dirs=heartbeat.degraded.tolerated,
            cordoned_log_dirs=heartbeat.cordoned,
            metadata_log_dir=self._identity.metadata_log_dir,
        )

    def _complain(self, what: str, text: str) -> None:
        """Log a failure once, not with every retry."""
        complaint = f"{what}: {text}"
        level = logging.DEBUG if complaint == self._last_complaint else logging.WARNING
        self._last_complaint = complaint
        logger.log(level, "controller request failed; retrying: %s", complaint)

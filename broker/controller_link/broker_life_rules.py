"""The life of a broker as the controller sees it: what is sent when, and what a response means.

There is one conversation with one request in flight: first registrations until one is accepted,
then heartbeats until the process ends. The core below receives events and returns instructions; it
reads no clock and sends nothing. It expects a `Tick` at `next_wakeup_ms`.

Each heartbeat repeats all directories that failed since the start and were not revived. A revived
directory is registered again, in the same epoch. Until that registration is accepted, the
heartbeats still name the directory, which has no effect because it is not registered. After the
registration no heartbeat may name it, because it would take the directory offline again.

A directory counts as reported only when a heartbeat *that contained it* was answered without an
error; until then a separate timer runs. If the timer expires and this broker leads a partition in
the directory, no other broker can take over, so the process must stop (KIP-858). A broker that
leads nothing there does no harm: it continues and checks again with every attempt, because the
controller may make it a leader at any time.

Source: `kafka.server.BrokerLifecycleManager`; KIP-858, "Handling of metadata log failures".
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import assert_never

import msgspec

from broker.controller_link.broker_life_events import (
    ControllerFound,
    ControllerUnreachable,
    DirectoriesCordoned,
    DirectoriesDegraded,
    DirectoryFailed,
    DirectoryRevived,
    Event,
    HeartbeatAnswered,
    HeartbeatRefused,
    Instruction,
    LifeMilestone,
    ReadyToUnfence,
    Registered,
    RegistrationOutdated,
    RegistrationRefused,
    RequireShutdown,
    SendHeartbeat,
    SendRegistration,
    ShutdownBegun,
    Started,
    Tick,
)
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import UNKNOWN_BROKER_EPOCH, DirectoryId

STARTING_DELAY_MS = 10
"""Between heartbeats until the broker has caught up."""

UNFENCE_DELAY_MS = 50
"""Between heartbeats of a broker that could serve and is still fenced."""

CONTROLLED_SHUTDOWN_DELAY_MS = 50
"""After the first answer that does not let it go yet; doubled with each further one."""

BACKOFF_MS = 100
BACKOFF_MS_MAX = 1_000
"""Kafka goes up to the session timeout, and is fenced before it finds a restarted controller."""

FIRST_CONTACT_BACKOFF_MS_MAX = 250
"""A whole cluster that starts should not wait for whoever came before its controller."""

REFUSED_REGISTRATION_DELAY_MS_MAX = 500
"""Kafka waits a heartbeat interval; a restarted broker should be back as soon as it may."""


class BrokerState(IntEnum):
    """Kafka's numbers, as the metric `BrokerState` shows them."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


TRANSITIONS: frozenset[tuple[BrokerState, BrokerState]] = frozenset(
    {
        (BrokerState.NOT_RUNNING, BrokerState.STARTING),
        (BrokerState.STARTING, BrokerState.RECOVERY),
        (BrokerState.RECOVERY, BrokerState.RUNNING),
        (BrokerState.RUNNING, BrokerState.PENDING_CONTROLLED_SHUTDOWN),
        (BrokerState.NOT_RUNNING, BrokerState.SHUTTING_DOWN),
        (BrokerState.STARTING, BrokerState.SHUTTING_DOWN),
        (BrokerState.RECOVERY, BrokerState.SHUTTING_DOWN),
        (BrokerState.RUNNING, BrokerState.SHUTTING_DOWN),
        (BrokerState.PENDING_CONTROLLED_SHUTDOWN, BrokerState.SHUTTING_DOWN),
    }
)


class BrokerLifeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The timing of a broker's life; Kafka's keys in `broker.config`."""

    heartbeat_interval_ms: int = 2_000
    session_timeout_ms: int = 9_000
    initial_broker_registration_timeout_ms: int = 60_000
    log_dir_failure_timeout_ms: int = 30_000


class BrokerLifeRules:
    """The conversation of one broker process with the controller.

    Args:
        settings: Timing.
        leads_in: Whether this broker leads a partition in a directory, as the metadata has it.
        random: A number from 0 up to 1; spreads the retries of several brokers.
    """

    def __init__(
        self,
        settings: BrokerLifeSettings,
        *,
        leads_in: Callable[[DirectoryId], bool],
        random: Callable[[], float],
    ) -> None:
        self.state = BrokerState.NOT_RUNNING
        self.broker_epoch = UNKNOWN_BROKER_EPOCH
        self.is_fenced = True
        """As the last answer said."""
        self._settings = settings
        self._leads_in = leads_in
        self._random = random
        self._is_registered = False
        # Whether it is time to register once more in the same epoch.
        self._is_outdated = False
        self._heartbeat_first = False
        self._ready_to_unfence = False
        self._offline: list[DirectoryId] = []
        # Those of them that are back, though no accepted registration contained them yet.
        self._revived: set[DirectoryId] = set()
        # Those that the registration in flight contains; None: it is none.
        self._registering: frozenset[DirectoryId] | None = None
        self._degraded = DirectoriesDegraded()
        # None: the settings of this broker are not known yet.
        self._cordoned: tuple[DirectoryId, ...] | None = None
        # Directories that no answered heartbeat contained yet, and until when one must.
        self._untold: dict[DirectoryId, int] = {}
        # The directories that the communication in flight carries; None: nothing is in flight.
        self._in_flight: tuple[DirectoryId, ...] | None = None
        self._send_again = False
        # Whether another controller was found since what is in flight was sent.
        self._found_in_flight = False
        self._failures = 0
        self._next_send_ms = 0
        self._registration_deadline_ms: int | None = None
        self._shutdown_answers = 0
        self._told: set[LifeMilestone] = set()
        self._shutdown_required = False
        self._looked_at_ms = -1

    @property
    def cordoned(self) -> tuple[DirectoryId, ...] | None:
        """The directories that get no new replicas; None while they are not known."""
        return self._cordoned

    @property
    def is_registration_due(self) -> bool:
        """Whether the controller has not accepted yet which directories are online."""
        return self._is_outdated or self._registering is not None

    @property
    def next_wakeup_ms(self) -> int | None:
        """When `Tick` is due; None if only an answer can change anything."""
        if self.state in (BrokerState.NOT_RUNNING, BrokerState.SHUTTING_DOWN):
            return None
        times = [] if self._in_flight is not None else [self._next_send_ms]
        if not self._shutdown_required:
            if self._registration_deadline_ms is not None:
                times.append(self._registration_deadline_ms)
            # An expired timer without a shutdown is looked at again with each attempt to send.
            times.extend(time for time in self._untold.values() if time > self._looked_at_ms)
        return min(times, default=None)

    def handle(self, event: Event, now_ms: int) -> list[Instruction]:
        """Take an event in, and say what is to be done now, in order.

        Args:
            event: The event.
            now_ms: Time of a clock that never goes back.
        """
        instructions: list[Instruction] = []
        self._take_in(event, now_ms, instructions)
        if self.state in (BrokerState.NOT_RUNNING, BrokerState.SHUTTING_DOWN):
            return instructions
        self._check_deadlines(now_ms, instructions)
        if self._in_flight is None and now_ms >= self._next_send_ms:
            instructions.append(self._next_communication())
        return instructions

    def _take_in(self, event: Event, now_ms: int, instructions: list[Instruction]) -> None:
        match event:
            case Started():
                self._become(BrokerState.STARTING)
                self._next_send_ms = now_ms
                self._registration_deadline_ms = (
                    now_ms + self._settings.initial_broker_registration_timeout_ms
                )
            case Registered():
                self._registered(event, now_ms, instructions)
            case RegistrationRefused():
                # A registered broker stays alive by heartbeats whatever is wrong with the new one.
                self._heartbeat_first = self._is_registered
                self._refused(
                    now_ms,
                    min(self._settings.heartbeat_interval_ms, REFUSED_REGISTRATION_DELAY_MS_MAX),
                )
            case HeartbeatAnswered():
                self._heartbeat_answered(event, now_ms, instructions)
            case HeartbeatRefused():
                self._heartbeat_refused(event.error_code, now_ms, instructions)
            case ControllerUnreachable():
                # Another controller than the one that was asked has not failed yet.
                self._refused(now_ms, 0 if self._found_in_flight else self._backoff_ms())
            case ControllerFound():
                self._failures = 0
                self._found_in_flight = self._in_flight is not None
                self._send_now(now_ms)
            case DirectoryFailed():
                self._directory_failed(event.directory_id, now_ms)
            case DirectoriesDegraded():
                self._directories_degraded(event, now_ms)
            case DirectoriesCordoned():
                if event.cordoned != self._cordoned:
                    self._cordoned = event.cordoned
                    self._send_now(now_ms)
            case DirectoryRevived():
                self._directory_revived(event.failed, now_ms)
            case RegistrationOutdated():
                self._is_outdated = True
                self._send_now(now_ms)
            case ReadyToUnfence():
                self._ready_to_unfence = True
                self._send_now(now_ms)
            case ShutdownBegun():
                self._shutdown_begun(event.controlled, now_ms, instructions)
            case Tick():
                pass
            case _:
                assert_never(event)

    def _registered(self, event: Registered, now_ms: int, told: list[Instruction]) -> None:
        for directory_id in self._registering or ():
            # It may have failed again since the registration was sent.
            if directory_id in self._revived:
                self._revived.discard(directory_id)
                self._offline.remove(directory_id)
        self._in_flight = self._registering = None
        self._is_registered = True
        self.broker_epoch = event.broker_epoch
        self._registration_deadline_ms = None
        self._failures = 0
        self._send_again = False
        self._next_send_ms = now_ms
        self._tell(LifeMilestone.REGISTERED, told)

    def _heartbeat_answered(
        self, event: HeartbeatAnswered, now_ms: int, told: list[Instruction]
    ) -> None:
        # Only what this very request contained was told; a failure since then was not.
        for directory_id in self._in_flight or ():
            self._untold.pop(directory_id, None)
        self._in_flight = None
        self._failures = 0
        self.is_fenced = event.is_fenced
        if self.state is BrokerState.STARTING and event.is_caught_up:
            self._become(BrokerState.RECOVERY)
            self._tell(LifeMilestone.CAUGHT_UP, told)
        if self.state is BrokerState.RECOVERY and not event.is_fenced:
            self._become(BrokerState.RUNNING)
            self._tell(LifeMilestone.UNFENCED, told)
        if self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            self._shutdown_answers += 1
            if event.should_shut_down:
                self._allow_shutdown(told)
                return
        again, self._send_again = self._send_again, False
        self._next_send_ms = now_ms if again else now_ms + self._delay_ms()

    def _heartbeat_refused(
        self, error_code: ErrorCode, now_ms: int, told: list[Instruction]
    ) -> None:
        if error_code is ErrorCode.STALE_BROKER_EPOCH:
            # The controller forgot this broker, or never knew this epoch: introduce it again.
            self._is_registered = False
            self.is_fenced = True
            if self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
                self._in_flight = None
                self._allow_shutdown(told)
                return
        self._refused(now_ms, self._backoff_ms())

    def _directory_failed(self, directory_id: DirectoryId, now_ms: int) -> None:
        if directory_id in self._revived:
            self._revived.discard(directory_id)
        elif directory_id in self._offline:
            return
        else:
            self._offline.append(directory_id)
        self._untold[directory_id] = now_ms + self._settings.log_dir_failure_timeout_ms
        self._send_now(now_ms)

    def _directory_revived(self, failed: DirectoryId | None, now_ms: int) -> None:
        if failed in self._offline:
            self._revived.add(failed)
            self._untold.pop(failed, None)
        self._is_outdated = True
        self._send_now(now_ms)

    def _directories_degraded(self, degraded: DirectoriesDegraded, now_ms: int) -> None:
        before, self._degraded = self._degraded_online(), degraded
        if self._degraded_online() != before:
            self._send_now(now_ms)

    def _degraded_online(self) -> DirectoriesDegraded:
        """Return what is to be told; of a directory that failed there is nothing more to say."""
        gone = frozenset(self._offline)
        degraded = self._degraded
        return DirectoriesDegraded(
            degraded=tuple(each for each in degraded.degraded if each not in gone),
            full=tuple(each for each in degraded.full if each not in gone),
            tolerated=tuple(each for each in degraded.tolerated if each not in gone),
        )

    def _shutdown_begun(self, controlled: bool, now_ms: int, told: list[Instruction]) -> None:
        if controlled and self.state is BrokerState.RUNNING:
            self._become(BrokerState.PENDING_CONTROLLED_SHUTDOWN)
            self._send_now(now_ms)
        elif self.state is not BrokerState.SHUTTING_DOWN:
            self._allow_shutdown(told)

    def _allow_shutdown(self, told: list[Instruction]) -> None:
        self._become(BrokerState.SHUTTING_DOWN)
        self._tell(LifeMilestone.SHUTDOWN_ALLOWED, told)

    def _refused(self, now_ms: int, delay_ms: int) -> None:
        if self._registering is not None:
            self._is_outdated = self._is_registered
        self._in_flight = self._registering = None
        self._failures += 1
        # Whatever wanted to be sent at once is part of the next attempt, which keeps the pause.
        self._send_again = False
        self._next_send_ms = now_ms + delay_ms

    def _send_now(self, now_ms: int) -> None:
        if self._in_flight is not None:
            self._send_again = True
        elif self._is_registered and self._failures == 0:
            self._next_send_ms = now_ms

    def _next_communication(self) -> SendRegistration | SendHeartbeat:
        self._found_in_flight = False
        is_outdated = (
            self._is_outdated and self.state is not BrokerState.PENDING_CONTROLLED_SHUTDOWN
        )
        if not self._is_registered or (is_outdated and not self._heartbeat_first):
            self._in_flight = ()
            self._is_outdated = False
            self._registering = frozenset(self._revived)
            return SendRegistration()
        self._heartbeat_first = False
        self._in_flight = tuple(self._offline)
        return SendHeartbeat(
            want_fence=not self._ready_to_unfence,
            want_shut_down=self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN,
            offline_log_dirs=self._in_flight,
            degraded=self._degraded_online(),
            cordoned=self._cordoned,
        )

    def _check_deadlines(self, now_ms: int, instructions: list[Instruction]) -> None:
        self._looked_at_ms = now_ms
        if self._shutdown_required:
            return
        reason = self._overdue(now_ms)
        if reason is not None:
            self._shutdown_required = True
            instructions.append(RequireShutdown(reason))

    def _overdue(self, now_ms: int) -> str | None:
        if self._registration_deadline_ms is not None and now_ms >= self._registration_deadline_ms:
            return "unable to register with the controller quorum"
        for directory_id, deadline_ms in self._untold.items():
            if now_ms >= deadline_ms and self._leads_in(directory_id):
                return (
                    "couldn't communicate offline log dir "
                    f"{kafka_uuid.to_text(directory_id)} with controllers"
                )
        return None

    def _delay_ms(self) -> int:
        interval_ms = self._settings.heartbeat_interval_ms
        if self.state is BrokerState.STARTING:
            return min(STARTING_DELAY_MS, interval_ms)
        if self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            doublings = min(self._shutdown_answers - 1, 16)
            return int(min(CONTROLLED_SHUTDOWN_DELAY_MS * 2**doublings, interval_ms))
        if self._ready_to_unfence and self.is_fenced:
            return min(UNFENCE_DELAY_MS, interval_ms)
        return interval_ms

    def _backoff_ms(self) -> int:
        is_first_contact = self.broker_epoch == UNKNOWN_BROKER_EPOCH
        limit_ms = FIRST_CONTACT_BACKOFF_MS_MAX if is_first_contact else BACKOFF_MS_MAX
        limit_ms = min(limit_ms, self._settings.session_timeout_ms)
        spread = 0.98 + 0.04 * self._random()
        return int(min(BACKOFF_MS * 2 ** min(self._failures, 16) * spread, limit_ms))

    def _become(self, state: BrokerState) -> None:
        if (self.state, state) not in TRANSITIONS:
            raise AssertionError(f"broker in state {self.state.name} cannot become {state.name}")
        self.state = state

    def _tell(self, milestone: LifeMilestone, instructions: list[Instruction]) -> None:
        if milestone not in self._told:
            self._told.add(milestone)
            instructions.append(milestone)

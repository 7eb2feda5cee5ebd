"""The events that the life of a broker receives, and the instructions that it returns."""

from __future__ import annotations

from enum import Enum, auto

import msgspec

from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerEpoch, DirectoryId

# Events


class Started(msgspec.Struct, frozen=True):
    """The process wants to take part."""


class Registered(msgspec.Struct, frozen=True):
    """A registration was accepted."""

    broker_epoch: BrokerEpoch


class RegistrationRefused(msgspec.Struct, frozen=True):
    """A registration was answered with an error."""

    error_code: ErrorCode


class HeartbeatAnswered(msgspec.Struct, frozen=True):
    """A heartbeat was answered without an error."""

    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool = False


class HeartbeatRefused(msgspec.Struct, frozen=True):
    """A heartbeat was answered with an error."""

    error_code: ErrorCode


class ControllerUnreachable(msgspec.Struct, frozen=True):
    """The controller could not be reached, or did not answer in time."""


class ControllerFound(msgspec.Struct, frozen=True):
    """Another controller than before is active: it knows nothing that only heartbeats tell."""


class DirectoryFailed(msgspec.Struct, frozen=True):
    """A directory of this broker went offline."""

    directory_id: DirectoryId


class DirectoriesDegraded(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions of directories that are online; they replace all conditions told before.

    Attributes:
        degraded: Those that are full or slow.
        full: Those of them that take no more data.
        tolerated: Those of them that may keep the leaders they have.
    """

    degraded: tuple[DirectoryId, ...] = ()
    full: tuple[DirectoryId, ...] = ()
    tolerated: tuple[DirectoryId, ...] = ()


class DirectoriesCordoned(msgspec.Struct, frozen=True):
    """The directories that get no new replicas; replaces what was said of them before."""

    cordoned: tuple[DirectoryId, ...]


class DirectoryRevived(msgspec.Struct, frozen=True):
    """A directory of this broker is back online.

    Attributes:
        failed: The id that failed, which is another one if the disk was replaced; None if it was
            not known.
    """

    failed: DirectoryId | None


class RegistrationOutdated(msgspec.Struct, frozen=True):
    """The registration lacks something that the controller should know."""


class ReadyToUnfence(msgspec.Struct, frozen=True):
    """The replicas run; this broker may serve."""


class ShutdownBegun(msgspec.Struct, frozen=True):
    """The process wants to end; a controlled shutdown first hands leadership over."""

    controlled: bool


class Tick(msgspec.Struct, frozen=True):
    """`next_wakeup_ms` has come."""


Event = (
    Started
    | Registered
    | RegistrationRefused
    | HeartbeatAnswered
    | HeartbeatRefused
    | ControllerUnreachable
    | ControllerFound
    | DirectoryFailed
    | DirectoriesDegraded
    | DirectoriesCordoned
    | DirectoryRevived
    | RegistrationOutdated
    | ReadyToUnfence
    | ShutdownBegun
    | Tick
)


# Instructions


class SendRegistration(msgspec.Struct, frozen=True):
    """Register; answer with `Registered`, `RegistrationRefused` or `ControllerUnreachable`."""


class SendHeartbeat(msgspec.Struct, frozen=True):
    """Send a heartbeat.

    Answer with `HeartbeatAnswered`, `HeartbeatRefused` or `ControllerUnreachable`.
    """

    want_fence: bool
    want_shut_down: bool
    offline_log_dirs: tuple[DirectoryId, ...]
    degraded: DirectoriesDegraded = DirectoriesDegraded()
    cordoned: tuple[DirectoryId, ...] | None = None


class LifeMilestone(Enum):
    """Milestones that other parts wait for; each is told at most once."""

    REGISTERED = auto()
    CAUGHT_UP = auto()
    UNFENCED = auto()
    SHUTDOWN_ALLOWED = auto()


class RequireShutdown(msgspec.Struct, frozen=True):
    """This broker cannot do its duty any more and must stop."""

    reason: str


Instruction = SendRegistration | SendHeartbeat | LifeMilestone | RequireShutdown

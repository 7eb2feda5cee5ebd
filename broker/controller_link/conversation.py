"""What the life of a broker is told (events), and what it says is to be done (instructions)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from jbodlab.error_code import ErrorCode
from jbodlab.ids import BrokerEpoch, DirectoryId

# Events


@dataclass(frozen=True, slots=True)
class Started:
    """The process wants to take part."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A registration was accepted."""

    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True)
class RegistrationRefused:
    """A registration was answered with an error."""

    error_code: ErrorCode


@dataclass(frozen=True, slots=True)
class HeartbeatAnswered:
    """A heartbeat was answered without an error."""

    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool = False


@dataclass(frozen=True, slots=True)
class HeartbeatRefused:
    """A heartbeat was answered with an error."""

    error_code: ErrorCode


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """The controller could not be reached, or did not answer in time."""


@dataclass(frozen=True, slots=True)
class DirectoryFailed:
    """A directory of this broker went offline."""

    directory_id: DirectoryId


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoriesDegraded:
    """What is wrong with directories that are online; replaces what was said of them before.

    Attributes:
        degraded: Those that are full or slow.
        full: Those of them that take no more data.
        tolerated: Those of them that may keep the leaders they have.
    """

    degraded: tuple[DirectoryId, ...] = ()
    full: tuple[DirectoryId, ...] = ()
    tolerated: tuple[DirectoryId, ...] = ()


@dataclass(frozen=True, slots=True)
class DirectoriesCordoned:
    """The directories that get no new replicas; replaces what was said of them before."""

    cordoned: tuple[DirectoryId, ...]


@dataclass(frozen=True, slots=True)
class DirectoryRevived:
    """A directory of this broker is back online.

    Attributes:
        failed: The id that failed, which is another one if the disk was replaced; None if it was
            not known.
    """

    failed: DirectoryId | None


@dataclass(frozen=True, slots=True)
class RegistrationOutdated:
    """The registration lacks something that the controller should know."""


@dataclass(frozen=True, slots=True)
class ReadyToUnfence:
    """The replicas run; this broker may serve."""


@dataclass(frozen=True, slots=True)
class ShutdownBegun:
    """The process wants to end; a controlled shutdown first hands leadership over."""

    controlled: bool


@dataclass(frozen=True, slots=True)
class Tick:
    """`next_wakeup_ms` has come."""


Event = (
    Started
    | Registered
    | RegistrationRefused
    | HeartbeatAnswered
    | HeartbeatRefused
    | NoAnswer
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


@dataclass(frozen=True, slots=True)
class SendRegistration:
    """Register; answer with `Registered`, `RegistrationRefused` or `NoAnswer`."""


@dataclass(frozen=True, slots=True)
class SendHeartbeat:
    """Send a heartbeat; answer with `HeartbeatAnswered`, `HeartbeatRefused` or `NoAnswer`."""

    want_fence: bool
    want_shut_down: bool
    offline_log_dirs: tuple[DirectoryId, ...]
    degraded: DirectoriesDegraded = DirectoriesDegraded()
    cordoned: tuple[DirectoryId, ...] | None = None


class News(Enum):
    """What others wait for; each is told at most once."""

    REGISTERED = auto()
    CAUGHT_UP = auto()
    UNFENCED = auto()
    SHUTDOWN_ALLOWED = auto()


@dataclass(frozen=True, slots=True)
class RequireShutdown:
    """This broker cannot do its duty any more and must stop."""

    reason: str


Instruction = SendRegistration | SendHeartbeat | News | RequireShutdown

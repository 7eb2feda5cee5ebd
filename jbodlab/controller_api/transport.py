"""How calls get from a broker to its controller, whatever carries them.

Messages are those of the proto file. `grpc_transport` and `grpc_server` are the two real ends.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from enum import Enum, auto
from typing import Any, Protocol

from google.protobuf.message import DecodeError as ProtobufError

from jbodlab.controller_api import messages
from jbodlab.controller_api.requests import FindControllerResponse
from jbodlab.controller_api.translate import from_proto
from jbodlab.vocabulary.errors import ControllerUnavailableError, DecodeError, JbodlabError

HINT, OUTCOME_UNKNOWN = "jbodlab-controller-bin", "jbodlab-outcome-unknown"
"""Names of the metadata behind a call that ends with NOT_CONTROLLER."""


class Refusal(Enum):
    """Why a call is not carried out, by the names of gRPC's status codes but for the last one."""

    INVALID_ARGUMENT = auto()
    FAILED_PRECONDITION = auto()
    RESOURCE_EXHAUSTED = auto()
    UNAUTHENTICATED = auto()
    PERMISSION_DENIED = auto()
    NOT_CONTROLLER = auto()


class RpcRefusedError(JbodlabError):
    """A call is not carried out; it ends with a status and gets no response.

    Attributes:
        is_outcome_unknown: Whether it may have been carried out after all.
        hint: The message `FindControllerResponse` of a controller that is not active; else empty.
    """

    def __init__(
        self,
        refusal: Refusal,
        message: str,
        *,
        is_outcome_unknown: bool = False,
        hint: bytes = b"",
    ) -> None:
        super().__init__(message)
        self.refusal = refusal
        self.is_outcome_unknown = is_outcome_unknown
        self.hint = hint


class NotControllerError(ControllerUnavailableError):
    """The controller is not active.

    Attributes:
        hint: The leader as it knows it; None if that cannot be read.
    """

    def __init__(self, message: str, *, is_outcome_unknown: bool, hint: bytes) -> None:
        super().__init__(message, is_outcome_unknown=is_outcome_unknown)
        self.hint = _found_in(hint)


def _found_in(hint: bytes) -> FindControllerResponse | None:
    try:
        found: FindControllerResponse = from_proto(messages.FindControllerResponse.FromString(hint))
    except (DecodeError, ProtobufError):
        return None
    return found


class RpcTransport(Protocol):
    """The way from one broker to its controller.

    All calls raise `ControllerUnavailableError` when no answer came.
    """

    async def unary(self, method: str, message: Any, timeout_s: float) -> Any:
        """Call a method; returns its response."""

    def stream(self, method: str, message: Any) -> AsyncGenerator[Any, None]:
        """Call a method that goes on responding; closing the generator ends the call."""

    async def close(self) -> None:
        """Close the connection; calls in flight fail."""


class RpcService(Protocol):
    """Handler of requests to a controller; both calls may raise `RpcRefusedError`."""

    async def unary(self, method: str, message: Any) -> Any:
        """Return the response of a call."""

    def stream(self, method: str, message: Any) -> AsyncGenerator[Any, None]:
        """Yield the responses of a call that goes on responding."""


class RpcServer(Protocol):
    """One listener of a controller.

    Attributes:
        addresses: Addresses that it is bound to, for the log.
    """

    addresses: list[str]

    def bind(self, service: RpcService) -> None:
        """Take the port for a service.

        Raises:
            ConfigError: the port cannot be used.
        """

    async def start(self) -> None:
        """Answer calls from now on."""

    async def stop(self, grace_s: float | None) -> None:
        """Answer no more; what is in progress gets so much time, None for none."""

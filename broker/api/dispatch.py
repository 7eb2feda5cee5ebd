"""Frame to typed request to handler to bytes; here, and only here, exceptions become error codes.

A request that cannot be read or whose API or version is not served ends its connection, since
the protocol has no answer to it. The exception is ApiVersions: a client that asks with a version
of the future gets the range in a version 0 body and asks again (KIP-511).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from broker.api.answer import Api, Encoded, Later, RequestContext, Response
from broker.api.api_versions import unsupported_version_response
from broker.api.request_handler import (
    Buffers,
    CloseConnectionError,
    ConnectionInfo,
    Pending,
)
from jbodlab.error_code import ErrorCode
from jbodlab.errors import (
    ControllerUnavailableError,
    KafkaError,
    LogDirError,
    UnsupportedVersionError,
)
from jbodlab.protocol.api_table import ApiKey, is_served, request_reader, response_encoder
from jbodlab.protocol.framing import SIZE
from jbodlab.protocol.headers import read_request_header, response_header

logger = logging.getLogger(__name__)

PRODUCE_KEY = ApiKey.PRODUCE.to_bytes(2, "big")


@dataclass(frozen=True, slots=True)
class _Call:
    """One request with everything that its answer needs."""

    api: Api
    request: Any
    context: RequestContext


class Dispatcher:
    """The request handler of all listeners."""

    def __init__(self, apis: Mapping[ApiKey, Api]) -> None:
        self.apis = apis
        """The handler of each API that is served."""

    def is_pipelined(self, frame: memoryview) -> bool:
        """Return whether a request is a Produce: these may overlap on one connection."""
        return frame[:2] == PRODUCE_KEY

    def handle(self, frame: memoryview, connection: ConnectionInfo) -> Buffers | Pending:
        """Answer one request.

        Raises:
            DecodeError: the request cannot be read, or is not served.
            CloseConnectionError: what went wrong has no response.
        """
        header = read_request_header(frame)
        api = self.apis.get(ApiKey(header.api_key)) if _is_known(header.api_key) else None
        if api is None or not is_served(header.api_key, header.api_version):
            if api is not None and header.api_key == ApiKey.API_VERSIONS:
                return unsupported_version_response(header.correlation_id)
            raise UnsupportedVersionError(
                f"API {header.api_key} version {header.api_version} is not served"
            )
        read = request_reader(header.api_key, header.api_version)
        request, _ = read(frame, header.body_offset)
        call = _Call(api, request, RequestContext(header, connection))
        try:
            answer = api.answer(request, call.context)
        except CloseConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 - one request must not end the others; it is logged
            return _failed(call, error)
        if isinstance(answer, Later):
            later = answer
            return Pending(later.future, lambda: _finished(call, later), later.hurry)
        return _encoded(answer, call.context)


def as_kafka_error(error: Exception) -> KafkaError:
    """Return the error that a client is to see; what nobody expected is logged."""
    match error:
        case KafkaError():
            return error
        case LogDirError():
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        case ControllerUnavailableError():
            return KafkaError(ErrorCode.NOT_CONTROLLER, "the controller does not answer")
        case TimeoutError():
            return KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        case _:
            logger.error("request failed", exc_info=error)
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)


def _finished(call: _Call, later: Later) -> Buffers:
    """Encode an answer that came later; a cancelled future ends the connection."""
    try:
        answer = later.finish(later.future.result())
    except CloseConnectionError:
        raise
    except Exception as error:  # noqa: BLE001 - as in handle
        return _failed(call, error)
    return _encoded(answer, call.context)


def _failed(call: _Call, error: Exception) -> Buffers:
    failure = call.api.failure(call.request, call.context, as_kafka_error(error))
    return _encoded(failure, call.context)


def _encoded(answer: Response | Encoded, context: RequestContext) -> Buffers:
    if isinstance(answer, Encoded):
        return answer.buffers
    header = context.header
    head = response_header(header.api_key, header.api_version, header.correlation_id)
    pieces = [b"", head]
    response_encoder(header.api_key, header.api_version)(answer, pieces.append)
    pieces[0] = SIZE.pack(sum(map(len, pieces)))
    return (b"".join(pieces),)


def _is_known(api_key: int) -> bool:
    return api_key in ApiKey._value2member_map_

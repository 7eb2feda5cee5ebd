"""SaslHandshake and SaslAuthenticate: a client logs in (KIP-43, KIP-152, KIP-368)."""

from __future__ import annotations

import asyncio
import datetime
from typing import TYPE_CHECKING

from broker.api.parts import ApiHandler, serves
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.security.plain import PLAIN
from jbodlab.server.answer import Later, RequestContext, in_background
from jbodlab.server.authentication import Authentication, refuse
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.resources import nothing
from jbodlab.server.response import Response
from jbodlab.server.response_structs import ResponseStructs
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import AuthenticationError, KafkaError

if TYPE_CHECKING:
    from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
    from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

SASL_HANDSHAKE = ResponseStructs(ApiKey.SASL_HANDSHAKE, 1)
SASL_AUTHENTICATE = ResponseStructs(ApiKey.SASL_AUTHENTICATE, 2)


class _LoginApi(ApiHandler, FailsBySchema):
    """A step of a login."""

    def _refused(
        self, context: RequestContext, login: Authentication, response: Response, reason: str
    ) -> Later:
        """Return a response that comes late, after which the connection is closed."""
        refuse(context.session, login, AuthenticationError(reason), self._parts.monotonic_s())

        async def later() -> Response:
            await asyncio.sleep(login.settings.failure_delay_s)
            return response

        return in_background(later())


@serves(ApiKey.SASL_HANDSHAKE, (0, 1), nothing)
class SaslHandshakeApi(_LoginApi):
    """Begins a login."""

    def answer(self, request: SaslHandshakeRequest, context: RequestContext) -> Response | Later:
        """Choose the mechanism; a client that asks for another one is sent away."""
        login = _login(context)
        enabled = login.settings.mechanisms
        code, reason = ErrorCode.NONE, ""
        try:
            login.handshake(request.mechanism, context.version, self._parts.monotonic_s())
        except AuthenticationError as error:
            code, reason = ErrorCode.SASL_AUTHENTICATION_FAILED, str(error)
        except KafkaError as error:
            if error.code != ErrorCode.UNSUPPORTED_SASL_MECHANISM:
                return SASL_HANDSHAKE.response(error_code=error.code, mechanisms=enabled)
            code, reason = error.code, error.message
        response = SASL_HANDSHAKE.response(error_code=code, mechanisms=enabled)
        return self._refused(context, login, response, reason) if code else response


@serves(ApiKey.SASL_AUTHENTICATE, (0, 2), nothing)
class SaslAuthenticateApi(_LoginApi):
    """Takes the tokens of a login."""

    def answer(self, request: SaslAuthenticateRequest, context: RequestContext) -> Response | Later:
        """Answer a token; a client whose login fails learns no reason, and is sent away."""
        login = _login(context)
        try:
            token = login.token(request.auth_bytes, self._parts.monotonic_s())
        except AuthenticationError as error:
            response = SASL_AUTHENTICATE.response(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                error_message=_failure_text(login.mechanism),
            )
            return self._refused(context, login, response, str(error))
        if login.user:
            context.session.user = login.user
        return SASL_AUTHENTICATE.response(
            auth_bytes=token, session_lifetime=datetime.timedelta(milliseconds=login.lifetime_ms)
        )


def _login(context: RequestContext) -> Authentication:
    login = context.session.authentication
    if login is None:
        raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE, "this listener has no authentication")
    return login


def _failure_text(mechanism: str) -> str:
    """Return the error text, the same for a wrong password and an unknown user."""
    if mechanism == PLAIN:
        return "Authentication failed: Invalid username or password"
    return (
        "Authentication failed during authentication due to invalid credentials with SASL "
        f"mechanism {mechanism}"
    )

"""The part that all responses have in common."""

from __future__ import annotations

import datetime

import msgspec

NO_TIME = datetime.timedelta(0)


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """A response that the encoder of its API writes."""

    throttle_time: datetime.timedelta = NO_TIME

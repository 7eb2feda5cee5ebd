"""Regular expressions that clients send: RE2 syntax, the whole text must match.

RE2 takes time that grows with the length of the text alone, so no expression can stop the broker.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol, cast

import re2

from broker.bounds.limits import COMPILED_BYTES_MAX, COMPILED_MAX
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = COMPILED_BYTES_MAX


class CompiledExpression(Protocol):
    """A compiled expression."""

    def fullmatch(self, text: str) -> object | None:
        """Match a text as a whole; None if it does not."""
        ...


@lru_cache(maxsize=COMPILED_MAX)
def _compiled(regex: str) -> CompiledExpression:
    return cast("CompiledExpression", re2.compile(regex, _OPTIONS))


def compiled(regex: str) -> CompiledExpression:
    """Compile an expression.

    Raises:
        KafkaError: INVALID_REGULAR_EXPRESSION.
    """
    try:
        return _compiled(regex)
    except re2.error as error:
        reason = error.args[0] if error.args else "not valid RE2 syntax"
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"invalid regular expression {regex!r}: {text}"
        ) from error

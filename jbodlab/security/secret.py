"""A text or bytes that no log line, error or traceback may show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

ValueT = TypeVar("ValueT", str, bytes)

HIDDEN = "[hidden]"


@dataclass(frozen=True, slots=True, repr=False)
class Secret(Generic[ValueT]):
    """Holds a secret, which only `reveal` returns.

    Source: `org.apache.kafka.common.config.types.Password`.
    """

    _value: ValueT

    def reveal(self) -> ValueT:
        """Return the secret."""
        return self._value

    def __repr__(self) -> str:
        return HIDDEN


NO_SECRET = Secret("")
"""In place of a password where nobody logs in."""

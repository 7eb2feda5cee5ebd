"""What a test needs of a cluster; equal needs can share one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a test needs: brokers, log directories of each, Kafka's settings, faults of calls.

    Attributes:
        calls: Whether brokers are started so that single calls can be broken (`eio`, `slow`,
            `hang`).
    """

    brokers: int = 3
    disks: int = 2
    config: tuple[tuple[str, str], ...] = ()
    calls: bool = False

    @classmethod
    def of(
        cls,
        brokers: int = 3,
        disks: int = 2,
        config: Mapping[str, object] | None = None,
        calls: bool = False,
    ) -> Self:
        """Return a need as a mark or a caller describes it."""
        for name, value, most in (("brokers", brokers, 20), ("disks", disks, 64)):
            if not isinstance(value, int) or not 1 <= value <= most:
                raise ValueError(f"expected {name} from 1 to {most}, got {value!r}")
        settings = tuple(sorted((key, str(value)) for key, value in (config or {}).items()))
        return cls(brokers=brokers, disks=disks, config=settings, calls=bool(calls))

"""Faults below the system calls of one broker, from its next start on."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from fault_injection.preload import Control, Counters, Rule


class CallFault:
    """Calls that fail, are slow or hang; heals at the end of a `with` block, or by `heal`."""

    def __init__(self, control: Control, rule: Rule) -> None:
        self._control = control
        self._counter = control.impose(rule)
        self.rule = rule

    @property
    def counters(self) -> Counters:
        """How many calls it met and broke, and when the first one was broken."""
        return self._control.counters_of(self._counter)

    def heal(self) -> None:
        """Let the calls through again, those included that hang; harmless when it is healed."""
        self._control.lift(self._counter)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.heal()


class Preload:
    """The rules of one broker, of which there may be several at a time.

    Attributes:
        path: The file that holds them.
        variables: What a process needs in its environment to follow them.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(mode=0o755, exist_ok=True)
        self._control = Control.open(path) if path.exists() else Control.create(path)
        self.variables = self._control.environment()

    def impose(self, rule: Rule) -> CallFault:
        """Put one more rule in force.

        Raises:
            FaultError: there are too many, or its directory cannot be broken.
        """
        return CallFault(self._control, rule)

    def clear(self) -> None:
        """Take all rules back."""
        self._control.clear()

    @property
    def attached(self) -> int:
        """How many processes have started with it."""
        return self._control.attached

"""Faults below the system calls of one broker, from its next start on."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from fault_injection.preload import Control, Counters, Rule


class CallFault:
    """Calls that fail, drag or hang; heals at the end of a `with` block, or by `heal`."""

    def __init__(self, preload: Preload, rule: Rule) -> None:
        self._preload = preload
        self.rule = rule

    @property
    def bites(self) -> Counters:
        """How many calls it met and broke, and when the first one was broken."""
        return self._preload.counters(self.rule)

    def heal(self) -> None:
        """Let the calls through again, those included that hang; harmless when it is healed."""
        self._preload.lift(self.rule)

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
        variables: What a process needs in its environment to follow them.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o755, exist_ok=True)
        self._control = Control.create(path)
        self._in_force: list[Rule] = []
        self._set: list[Rule] = []
        self.variables = self._control.environment()

    def impose(self, rule: Rule) -> CallFault:
        """Put one more rule in force.

        Raises:
            FaultError: there are too many, or its directory cannot be broken.
        """
        self._control.set([*self._in_force, rule])
        self._in_force.append(rule)
        self._set = [*self._in_force]
        return CallFault(self, rule)

    def lift(self, rule: Rule) -> None:
        """Take a rule back; the others stay."""
        if rule in self._in_force:
            self._in_force.remove(rule)
            if self._in_force:
                self._control.set(self._in_force)
                self._set = [*self._in_force]
            else:
                # Unlike after setting none, counters can still be read.
                self._control.clear()

    def clear(self) -> None:
        """Take all rules back."""
        self._in_force.clear()
        self._control.clear()

    @property
    def attached(self) -> int:
        """How many processes have started with it."""
        return self._control.attached

    def counters(self, rule: Rule) -> Counters:
        """Return what a rule met so far, or until it was the last to be taken back."""
        return self._control.counters()[self._set.index(rule)]

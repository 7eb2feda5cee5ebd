"""Faults of a cluster's directories and brokers, made and healed by the injector's own code."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Self

from fault_injection import journal, operations, registry
from fault_injection import timer as timers
from fault_injection.errors import FaultError
from fault_injection.journal import Journal
from fault_injection.kinds import FaultSpec
from fault_injection.mechanism import Broken, Healing, Start, Target


class Fault:
    """A fault that was made and has a proved effect; heals at the end of a `with` block.

    Attributes:
        id: Its number in the journal.
        kind: Name of its kind.
        mechanism: Name of the mechanism that made it.
        path: The directory that it broke, or the folder of the broker that it ended.
        broker: Name of that broker.
        injected_ns: When it took effect, on the monotonic clock.
        proved_ns: When its effect was proved.
        healing: Outcome of its healing; None while it is open, or where somebody else healed it.
    """

    def __init__(self, faults: Faults, made: journal.Fault) -> None:
        assert made.injected_ns is not None
        assert made.proved_ns is not None
        self._faults = faults
        self.id = made.fault_id
        self.kind = made.kind
        self.mechanism = made.mechanism
        self.path = made.path
        self.broker = made.broker
        self.injected_ns = made.injected_ns
        self.proved_ns = made.proved_ns
        self.healing: Healing | None = None

    @property
    def entry(self) -> journal.Fault:
        """The fault as the journal tells it now."""
        return journal.read_all(self._faults.journal)[self.id]

    @property
    def is_open(self) -> bool:
        """Whether it may still break something."""
        return self.entry.is_open

    @property
    def healed_ns(self) -> int | None:
        """When it was healed, by whomever; None while it is open."""
        return self.entry.healed_ns

    @property
    def broken(self) -> Broken:
        """Things that it broke so far, or until it was healed."""
        return operations.broken(self.entry)

    def heal(self) -> None:
        """Undo it exactly; harmless when it is healed already.

        Raises:
            FaultError: it could not be undone, and stays open.
        """
        self.healing = self._faults.heal(self.id) or self.healing

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.heal()


class Faults:
    """All faults of a cluster, in one journal.

    Args:
        journal: The file.
        start: Starts the broker that a fault had ended, given the fault.
        outlives_us: Whether the cluster goes on when this process ends; what heals its faults
            after their length is then a process of its own, else a thread of this one.
    """

    def __init__(
        self,
        journal: Path,
        *,
        start: Start | None = None,
        outlives_us: bool = False,
    ) -> None:
        self.journal = journal
        self._start: Start = start or _nobody_to_start
        self._outlives_us = outlives_us

    def check(self, spec: FaultSpec, target: Target) -> str:
        """Return why a fault cannot be made there, as one sentence; empty if it can."""
        return registry.check(spec, target)

    def inject(self, spec: FaultSpec, target: Target) -> Fault:
        """Break something and prove the effect, or change nothing.

        Raises:
            FaultError: refused, or it had no effect and was reverted.
        """
        with journal.open_journal(self.journal) as opened:
            made = operations.inject(
                spec, target, opened, start=self._start, set_timer=self._set_timer
            )
        return Fault(self, made)

    def heal(self, fault_id: int) -> Healing | None:
        """Undo a fault; None where it is healed already.

        Raises:
            FaultError: it could not be undone, and stays open.
        """
        with journal.open_journal(self.journal) as opened:
            return operations.heal_if_open(fault_id, opened, start=self._start)

    def heal_all(self, *, under: Path | None = None) -> list[tuple[journal.Fault, Healing]]:
        """Undo what is open, in one folder or everywhere, the newest first.

        Returns:
            The faults that were healed, each with its healing.

        Raises:
            FaultError: one could not be undone; the others were tried all the same.
        """
        healed, problems = [], []
        for fault in journal.read_faults(self.journal)[::-1]:
            if under is None or under == fault.path or under in fault.path.parents:
                try:
                    healing = self.heal(fault.fault_id)
                except FaultError as error:
                    problems.append(str(error))
                else:
                    healed += [] if healing is None else [(fault, healing)]
        if problems:
            raise FaultError("; ".join(problems))
        return healed

    def _set_timer(self, fault: journal.Fault, opened: Journal) -> None:
        if self._outlives_us:
            timers.spawn(fault, opened)
            return
        words = (timers.due_ns(fault), fault.fault_id, opened.path)
        threading.Thread(target=self._heal_at, args=words, daemon=True).start()

    def _heal_at(self, at_ns: int, fault_id: int, path: Path) -> None:
        # A fault that could not be healed stays open, and the journal says why.
        with contextlib.suppress(FaultError):
            timers.heal_at(at_ns, fault_id, path, self._start)


def _nobody_to_start(fault: journal.Fault) -> None:
    raise FaultError(f"cannot start {fault.broker} here")

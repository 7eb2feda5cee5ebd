"""Faults of log directories, made and healed by the injector's own code and journal."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from fault_injection import journal, operations
from fault_injection.journal import FaultError


class Fault:
    """A fault that was made and proved to bite; heals at the end of a `with` block.

    Attributes:
        id: Its number in the journal.
        kind: One of the injector's kinds.
        path: The directory that it broke.
        injected_ns: When it took effect, on the monotonic clock.
    """

    def __init__(self, faults: Faults, made: journal.Fault) -> None:
        assert made.injected_ns is not None
        self._faults = faults
        self.id = made.fault_id
        self.kind = made.kind
        self.path = made.path
        self.injected_ns = made.injected_ns

    def heal(self) -> None:
        """Undo it exactly; harmless when it is healed already.

        Raises:
            FaultError: it could not be undone, and stays open.
        """
        with journal.open_journal(self._faults.journal) as opened:
            fault = opened.faults.get(self.id)
            if fault is not None and fault.is_open:
                operations.heal(self.id, opened)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.heal()


class Faults:
    """All faults of a cluster, in one journal."""

    def __init__(self, journal: Path) -> None:
        self.journal = journal

    def inject(self, kind: str, path: Path) -> Fault:
        """Break a directory so that it bites its owner, or change nothing.

        Raises:
            FaultError: refused, or it did not bite and was undone.
        """
        with journal.open_journal(self.journal) as opened:
            return Fault(self, operations.inject(kind, str(path), None, opened))

    def heal_all(self, *, under: Path | None = None) -> None:
        """Undo what is open, in one folder or everywhere, the newest first.

        Raises:
            FaultError: one could not be undone; the others were tried all the same.
        """
        if not journal.read_faults(self.journal):
            return
        problems = []
        with journal.open_journal(self.journal) as opened:
            for fault in opened.open_faults()[::-1]:
                if under is None or under == fault.path or under in fault.path.parents:
                    try:
                        operations.heal(fault.fault_id, opened)
                    except FaultError as error:
                        problems.append(str(error))
        if problems:
            raise FaultError("; ".join(problems))

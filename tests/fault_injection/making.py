"""Injects and heals as commands do, for tests that bring a target of their own."""

from __future__ import annotations

from pathlib import Path

from fault_injection import kinds, operations, process_control, timer
from fault_injection.journal import Fault, Journal, open_journal
from fault_injection.mechanism import Healing, Target
from fault_injection.operations import SetTimer


def inject(
    journal: Path, kind: str, target: Target, *, set_timer: SetTimer = timer.spawn, **words: object
) -> Fault:
    """Make a fault; `for_` and the like stand for words that Python has for itself."""
    spec = kinds.spec(kind, {key.removesuffix("_"): value for key, value in words.items()})
    with open_journal(journal) as opened:
        return operations.inject(
            spec, target, opened, start=process_control.start, set_timer=set_timer
        )


def heal(journal: Path, fault: Fault) -> tuple[Fault, Healing]:
    """Undo a fault; returns it as the journal describes it afterwards."""
    with open_journal(journal) as opened:
        healing = operations.heal(fault.fault_id, opened, start=process_control.start)
        return opened.faults[fault.fault_id], healing


def no_timer(fault: Fault, journal: Journal) -> None:
    """Let nobody heal a fault after its length."""

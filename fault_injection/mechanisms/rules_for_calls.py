"""Faults below the system calls of a process that follows a file of rules.

The follower of the rules may be a preloaded library or a disk, without a difference here: both read
the same file and count into it what they broke. The proof is a child that follows a copy of that
file, so that the counters count for the broker alone.
"""

from __future__ import annotations

import errno
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from fault_injection import call_proof
from fault_injection.check import User
from fault_injection.errors import FaultError
from fault_injection.fuse import disk
from fault_injection.journal import Fault
from fault_injection.kinds import WRITING, FaultSpec
from fault_injection.mechanism import Broken, Healing, RecordUndo, Start, Target
from fault_injection.mechanisms.followers import Follower
from fault_injection.preload import CallClass, Control, Rule


class RulesForCalls:
    """The mechanisms `preload` and `fuse`.

    Args:
        follower: Carries the rules out.
    """

    def __init__(self, follower: Follower) -> None:
        self._follower = follower

    def refusal(self, spec: FaultSpec, target: Target) -> str:
        if reason := self._follower.refusal(target):
            return reason
        if spec.leave_bytes:
            return "it cannot leave space free"
        trapped = Control.open(self._follower.rules(target)).trapped
        missing = (spec.calls or CallClass(0)) & ~trapped
        if missing:
            words = ", ".join(str(one.name).lower() for one in missing)
            return f"it cannot break the calls {words}"
        if not _rule(spec, target.path).calls & trapped:
            return f"it cannot break the calls of {spec.kind}"
        return ""

    def prepare(self, spec: FaultSpec, target: Target, fault_id: int) -> dict[str, Any]:
        """Return the rule and the number of its counters."""
        control = Control.open(self._follower.rules(target))
        rule = _rule(spec, target.path)
        rule = replace(rule, calls=rule.calls & control.trapped)
        broker = target.broker
        others = [] if broker is None else [p for p in broker.log_dirs if p != target.directory]
        neighbour = next((str(path) for path in others if disk.lets_through(path)), "")
        return {
            "rules": str(control.path),
            "counter": control.reserve_counter(),
            "rule": {**asdict(rule), "directory": str(rule.directory), "calls": int(rule.calls)},
            "neighbour": neighbour,
        }

    def make(self, fault: Fault, record: RecordUndo, start: Start) -> None:
        control, rule = Control.open(Path(fault.undo["rules"])), _known_rule(fault)
        self._follower.get_ready(control, rule)
        control.impose(rule, fault.undo["counter"], fault.length_s)

    def verify(self, fault: Fault) -> str:
        """Let a child that follows a copy of the rule run into it."""
        rule = _known_rule(fault)
        neighbour = fault.undo["neighbour"]
        with self._follower.copy(fault) as copy:
            copy.control.impose(replace(rule, percent=100, name="*"))
            return call_proof.verify(
                rule,
                User(fault.uid, fault.gid),
                copy.variables,
                Path(neighbour) if neighbour else None,
                copy.control.clear,
            )

    def undo(self, fault: Fault, start: Start) -> Healing:
        path = Path(fault.undo["rules"])
        note = self._follower.look_after(fault)
        if not path.exists():
            return Healing(note=note or f"{path} was removed, and its rules with it")
        Control.open(path).lift(fault.undo["counter"], _known_rule(fault))
        return Healing(note=note)

    def broken(self, fault: Fault) -> Broken:
        try:
            found = Control.open(Path(fault.undo["rules"])).counters_of(fault.undo["counter"])
        except FaultError:
            return Broken(what="calls", count=0)
        return Broken(
            what="calls",
            count=found.broken,
            seen=found.seen,
            first_ns=found.first_ns,
            last_ns=found.last_ns,
        )


def _rule(spec: FaultSpec, directory: Path) -> Rule:
    of_calls = {"percent": spec.percent, "name": spec.files, "seed": spec.seed}
    calls = CallClass.ALL if spec.calls is None else spec.calls
    match spec.kind:
        case "eio":
            return Rule(directory=directory, calls=calls, errno=spec.errno, **of_calls)  # type: ignore[arg-type]
        case "read-only":
            return Rule(directory=directory, calls=WRITING, errno=errno.EROFS)
        case "full":
            calls = CallClass.CREATE | CallClass.WRITE
            return Rule(directory=directory, calls=calls, errno=errno.ENOSPC)
        case "slow":
            return Rule(
                directory=directory,
                calls=calls,
                delay_ms=spec.delay_ms,
                jitter_ms=spec.jitter_ms,
                **of_calls,  # type: ignore[arg-type]
            )
        case "hang":
            assert spec.length_s is not None
            return Rule(directory=directory, calls=calls, hang_s=spec.length_s, **of_calls)  # type: ignore[arg-type]
        case kind:
            raise AssertionError(kind)


def _known_rule(fault: Fault) -> Rule:
    known = {key: value for key, value in fault.undo["rule"].items() if key != "ports"}
    return Rule(
        **{**known, "directory": Path(known["directory"]), "calls": CallClass(known["calls"])}
    )

"""Faults below the system calls of a process that follows a file of rules.

Who carries the rules out, a preloaded library or a supervisor, makes no difference here: both read
the same file and count into it what they broke. The proof is a child that follows a copy of that
file, so that the counters tell of the patient alone.
"""

from __future__ import annotations

import contextlib
import errno
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from fault_injection import call_proof, notify, processes
from fault_injection.check import User
from fault_injection.errors import FaultError
from fault_injection.journal import Fault
from fault_injection.kinds import WRITING, FaultSpec
from fault_injection.mechanism import Broken, Healing, Patient, Start, Target, Tell
from fault_injection.preload import CallClass, Control, Rule
from jbodlab.program_names import ROOT


class RulesForCalls:
    """The mechanisms `preload` and `notify`.

    Args:
        name: Which of them.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def refusal(self, spec: FaultSpec, target: Target) -> str:
        """Return why it cannot be made here."""
        patient = target.patient
        if patient is None:
            return f"which broker has {target.path} is not known, name it with --broker and --dir"
        if patient.rules is None or patient.rules_by != self._name:
            return f"{patient.name} was not started with faults by {self._name}"
        if spec.leave_bytes:
            return "it cannot leave a number of bytes free"
        if self._name == "preload" and patient.process is not None:
            maps = Path(f"/proc/{patient.process.pid}/maps")
            with contextlib.suppress(OSError):
                if "/faults-" not in maps.read_text("utf-8", "replace"):
                    return f"{patient.name} did not load the preloaded library"
        trapped = Control.open(patient.rules).trapped
        missing = (spec.calls or CallClass(0)) & ~trapped
        if missing:
            words = ", ".join(str(one.name).lower() for one in missing)
            return f"it does not see calls of {words}"
        if not _rule(spec, target.path).calls & trapped:
            return f"it does not see the calls that {spec.kind} is about"
        return ""

    def prepare(self, spec: FaultSpec, target: Target, fault_id: int) -> dict[str, Any]:
        """Return the rule and the number of its counters."""
        assert target.patient is not None
        assert target.patient.rules is not None
        control = Control.open(target.patient.rules)
        rule = _rule(spec, target.path)
        rule = replace(rule, calls=rule.calls & control.trapped)
        neighbour = next((str(p) for p in target.patient.log_dirs if p != target.directory), "")
        return {
            "rules": str(control.path),
            "counter": control.free_counter(),
            "rule": {**asdict(rule), "directory": str(rule.directory), "calls": int(rule.calls)},
            "neighbour": neighbour,
            "python_path": _python_path(target.patient),
            "trapped": int(control.trapped),
        }

    def make(self, fault: Fault, tell: Tell, start: Start) -> None:
        """Put the rule in force."""
        control = Control.open(Path(fault.undo["rules"]))
        control.impose(_known_rule(fault), fault.undo["counter"], fault.length_s)

    def doubt(self, fault: Fault) -> str:
        """Let a child that follows a copy of the rule run into it."""
        rule = _known_rule(fault)
        with self._copied_rules(fault, rule) as (variables, prefix):
            return call_proof.doubt(
                rule,
                User(fault.uid, fault.gid),
                variables,
                prefix,
                Path(fault.undo["neighbour"]) if fault.undo["neighbour"] else None,
            )

    def undo(self, fault: Fault, start: Start) -> Healing:
        """Take the rule back."""
        path = Path(fault.undo["rules"])
        if not path.exists():
            return Healing(note=f"{path} is gone, and its rules with it")
        Control.open(path).lift(fault.undo["counter"], _known_rule(fault))
        return Healing()

    def broken(self, fault: Fault) -> Broken:
        """Return how many calls of the patient it met and broke."""
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

    @contextlib.contextmanager
    def _copied_rules(self, fault: Fault, rule: Rule) -> Iterator[tuple[dict[str, str], list[str]]]:
        """Yield the environment and the launcher of a child that follows a copy of the rule."""
        folder = Path(tempfile.mkdtemp(prefix="jbod-proof-"))
        try:
            folder.chmod(0o755)
            copy = Control.create(folder / "rules")
            copy.impose(replace(rule, percent=100, name="*"))
            if self._name == "preload":
                yield copy.environment(), []
            else:
                trapped = CallClass(fault.undo["trapped"])
                variables = notify.environment(copy, trapped)
                variables["PYTHONPATH"] = fault.undo["python_path"]
                yield variables, notify.launcher(trapped)
        finally:
            for path in (folder / "rules", folder):
                with contextlib.suppress(FileNotFoundError):
                    path.rmdir() if path == folder else path.unlink()


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


def _python_path(patient: Patient) -> str:
    """Return where the patient's user finds our modules."""
    if patient.process is not None:
        found = processes.variables(patient.process.pid).get("PYTHONPATH")
        if found is not None:
            return found
    return str(ROOT)


def _known_rule(fault: Fault) -> Rule:
    known = {key: value for key, value in fault.undo["rule"].items() if key != "ports"}
    return Rule(
        **{**known, "directory": Path(known["directory"]), "calls": CallClass(known["calls"])}
    )

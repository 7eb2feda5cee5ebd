"""Inject and heal as a whole: refuse, journal, break, prove, or undo."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path

from fault_injection import check, registry, timer
from fault_injection.errors import FaultError
from fault_injection.fuse import disk
from fault_injection.journal import Fault, Journal
from fault_injection.kinds import KINDS, FaultSpec, Scope
from fault_injection.mechanism import Broken, Healing, Patient, Start, Target
from jbodlab.lab_state import STATE_DIR_VARIABLE

_OWN_FILES = (Path(__file__).resolve(), Path(os.path.realpath(sys.prefix)) / "bin")
"""What `heal` needs to run."""

_TOGETHER = ("preload", "fuse", "process", "balloon", "connections")
"""Mechanisms whose faults can be undone in any order, so that several may strike one place."""

SetTimer = Callable[[Fault, Journal], None]
"""Sees to it that a fault with a length is healed at its end, whatever becomes of this process."""


def directory_target(given: str, wanted_user: str | None, patient: Patient | None = None) -> Target:
    """Return a log directory as a target.

    Args:
        given: The directory, as the operator wrote it; links are followed.
        wanted_user: User that the broker runs as, id or name; None for the directory's owner.
        patient: Its broker, where it is known.

    Raises:
        FaultError: it is none, must never be broken, or only root could prove it as that user.
    """
    # Nobody could look into a directory whose disk is dead.
    disk.remove_dead(Path(os.path.realpath(given)))
    path = _directory(given)
    try:
        user = check.user_for(path, wanted_user)
    except OSError as error:
        raise FaultError(f"nothing injected: {_text(error)}") from error
    return Target(directory=path, patient=patient, uid=user.uid, gid=user.gid)


def broker_target(patient: Patient, uid: int, gid: int) -> Target:
    """Return a broker as a target."""
    return Target(directory=None, patient=patient, uid=uid, gid=gid)


def inject(
    spec: FaultSpec, target: Target, journal: Journal, *, start: Start, set_timer: SetTimer
) -> Fault:
    """Break something so that it bites its broker, or change nothing.

    Args:
        spec: What is wanted.
        target: Where.
        journal: Open journal.
        start: Starts the process that a fault ended.
        set_timer: Called for a fault with a length, as soon as it was proved.

    Raises:
        FaultError: refused, or the fault did not bite and was undone.
    """
    _refuse_together(spec, target.path, journal.open_faults())
    if target.directory in journal.path.parents:
        raise FaultError(
            f"the journal {journal.path} lies in {target.path}, name another folder in "
            f"{STATE_DIR_VARIABLE}"
        )
    fault_id = journal.next_id()
    try:
        name = registry.choose(spec, target)
        undo = registry.MECHANISMS[name].prepare(spec, target, fault_id)
    except FaultError as error:
        raise FaultError(f"nothing injected: {error}") from error
    except OSError as error:
        raise FaultError(f"nothing injected: {_text(error)}") from error
    journal.write(
        "begin",
        fault_id,
        kind=spec.kind,
        mechanism=name,
        path=str(target.path),
        patient=target.patient.name if target.patient else "",
        uid=target.uid,
        gid=target.gid,
        length_s=spec.length_s,
        undo=undo,
    )
    _make(journal, fault_id, start)
    doubt = registry.MECHANISMS[name].doubt(journal.faults[fault_id])
    if doubt:
        _take_back(journal, fault_id, doubt, start)
    journal.write("proved", fault_id)
    if spec.length_s is not None:
        set_timer(journal.faults[fault_id], journal)
    return journal.faults[fault_id]


def heal(fault_id: int, journal: Journal, *, start: Start) -> Healing:
    """Undo one fault.

    Raises:
        FaultError: no such fault, it is closed already, or it could not be undone and stays open.
    """
    fault = journal.faults.get(fault_id)
    if fault is None:
        raise FaultError(f"no fault {fault_id} in the journal")
    if not fault.is_open:
        fate = "undone" if fault.state == "unproved" else fault.state
        raise FaultError(f"fault {fault_id} is not open any more: it was {fate} already")
    journal.write("healing", fault_id)
    try:
        counted = broken(fault)
        healing = registry.MECHANISMS[fault.mechanism].undo(fault, start)
    except (OSError, FaultError) as error:
        reason = _text(error) if isinstance(error, OSError) else str(error)
        journal.write("heal-failed", fault_id, reason=reason)
        raise FaultError(f"fault {fault_id} could not be healed: {reason}") from error
    journal.write("healed", fault_id, note=healing.note, broken=asdict(counted))
    timer.end(fault)
    return healing


def healed_line(fault: Fault, healing: Healing) -> str:
    """Return one line about a fault that was healed."""
    notes = [note for note in (healing.note, healing.to_do) if note]
    return "; ".join([f"fault {fault.fault_id} healed: {fault.kind} on {fault.path}", *notes])


def broken(fault: Fault) -> Broken:
    """Return what a fault broke so far, or until it was healed."""
    if fault.broken:
        return Broken(**fault.broken)
    return registry.MECHANISMS[fault.mechanism].broken(fault)


def _directory(given: str) -> Path:
    if not given:
        # An empty path would mean the folder that the operator happens to stand in.
        raise FaultError("the path is empty")
    path = Path(os.path.realpath(given))
    try:
        is_dir = path.is_dir()
    except OSError as error:
        raise FaultError(f"cannot look at {given}: {error.strerror}") from error
    if not is_dir:
        raise FaultError(
            f"{given} is not a directory" if os.path.lexists(path) else f"{given} does not exist"
        )
    if path == Path(path.anchor):
        raise FaultError(f"{path} is the root of the file system, it is never broken")
    if any(path in own.parents for own in _OWN_FILES):
        raise FaultError(f"{path} holds the program that would have to heal it")
    return path


def _refuse_together(spec: FaultSpec, path: Path, open_faults: Iterable[Fault]) -> None:
    """Two faults that move things in one tree could not be undone in any order."""
    is_of_broker = KINDS[spec.kind].scope is not Scope.DIRECTORY
    for fault in open_faults:
        if path == fault.path and is_of_broker and spec.kind == fault.kind:
            raise FaultError(f"{path} has an open fault already, number {fault.fault_id}")
        if is_of_broker or fault.mechanism in _TOGETHER:
            continue
        if path == fault.path:
            raise FaultError(f"{path} has an open fault already, number {fault.fault_id}")
        if fault.path in path.parents or path in fault.path.parents:
            raise FaultError(
                f"{path} and {fault.path}, which fault {fault.fault_id} holds, overlap"
            )


def _make(journal: Journal, fault_id: int, start: Start) -> None:
    fault = journal.faults[fault_id]
    mechanism = registry.MECHANISMS[fault.mechanism]
    try:
        struck_ns = mechanism.make(
            fault, lambda more: journal.write("more", fault_id, **more), start
        )
    except OSError as error:
        _take_back(journal, fault_id, _text(error), start)
    except FaultError as error:
        _take_back(journal, fault_id, str(error), start)
    journal.write("injected", fault_id, struck_ns=struck_ns)


def _take_back(journal: Journal, fault_id: int, reason: str, start: Start) -> None:
    """Undo a fault that did not work, and say so; never returns."""
    fault = journal.faults[fault_id]
    try:
        healing = registry.MECHANISMS[fault.mechanism].undo(fault, start)
    except (OSError, FaultError) as error:
        text = _text(error) if isinstance(error, OSError) else str(error)
        journal.write("heal-failed", fault_id, reason=text)
        raise FaultError(
            f"fault {fault_id} does not bite ({reason}) and could not be undone: {text}"
        ) from error
    journal.write("undone", fault_id, reason=reason, note=healing.note)
    raise FaultError(f"the fault does not bite and was undone: {reason}")


def _text(error: OSError) -> str:
    if error.errno == errno.EBUSY:
        return f"{error.filename} is in use as a mount point, it can be neither renamed nor deleted"
    return f"{error.strerror}: {error.filename}" if error.filename else str(error)

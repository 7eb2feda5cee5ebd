"""Inject and heal as a whole: refuse, prove, journal, act, prove again, or undo."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from fault_injection import check, faults
from fault_injection.journal import Fault, FaultError, Journal

_OWN_FILES = (Path(__file__).resolve(), Path(os.path.realpath(sys.prefix)) / "bin")
"""What `heal` needs to run."""


def inject(kind: str, given: str, wanted_user: str | None, journal: Journal) -> Fault:
    """Break a directory so that it bites its broker, or change nothing.

    Args:
        kind: One of `faults.KINDS`.
        given: The directory, as the operator wrote it; links are followed.
        wanted_user: User that the broker runs as, id or name; None for the directory's owner.
        journal: Open journal.

    Raises:
        FaultError: refused, or the fault did not bite and was undone.
    """
    path = _directory(given)
    _refuse_overlap(path, journal.open_faults())
    if path in journal.path.parents:
        raise FaultError(f"the journal {journal.path} lies in {path}, name another with --journal")
    try:
        user = check.user_for(path, wanted_user)
        error = check.create_error(path, user)
        if error:
            raise FaultError(
                f"nothing injected: uid {user.uid} cannot create a file in {path} even before the "
                f"fault ({os.strerror(error)})"
            )
        fault_id = journal.next_id()
        undo = faults.prepare(kind, path, fault_id)
    except OSError as error:
        raise FaultError(f"nothing injected: {_text(error)}") from error
    journal.write(
        "begin",
        fault_id,
        kind=kind,
        path=str(path),
        given=given,
        uid=user.uid,
        undo=asdict(undo),
    )
    _make(journal, fault_id)
    if not check.create_error(path, user):
        reason = f"uid {user.uid} can still create files in {path}" + (
            ", as root may everywhere" if user.uid == 0 else ""
        )
        _take_back(journal, fault_id, reason)
    return journal.faults[fault_id]


def heal(fault_id: int, journal: Journal) -> str:
    """Undo one fault.

    Returns:
        What happened, as one line.

    Raises:
        FaultError: no such fault, it is closed already, or it could not be undone and stays open.
    """
    fault = journal.faults.get(fault_id)
    if fault is None:
        raise FaultError(f"no fault {fault_id} in the journal")
    if not fault.is_open:
        raise FaultError(f"fault {fault_id} is not open any more: it was {fault.fate} already")
    journal.write("healing", fault_id)
    try:
        note = faults.undo(fault)
    except OSError as error:
        raise FaultError(f"fault {fault_id} could not be healed: {_text(error)}") from error
    journal.write("healed", fault_id, note=note)
    return f"fault {fault_id} healed: {fault.kind} on {fault.path}" + (f"; {note}" if note else "")


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


def _refuse_overlap(path: Path, open_faults: Iterable[Fault]) -> None:
    """Two faults in one tree could not be undone in any order."""
    for fault in open_faults:
        if path == fault.path:
            raise FaultError(f"{path} has an open fault already, number {fault.fault_id}")
        if fault.path in path.parents or path in fault.path.parents:
            raise FaultError(
                f"{path} and {fault.path}, which fault {fault.fault_id} holds, overlap"
            )


def _make(journal: Journal, fault_id: int) -> None:
    fault = journal.faults[fault_id]
    try:
        faults.make(fault, lambda modes: journal.write("more", fault_id, modes=modes))
    except OSError as error:
        _take_back(journal, fault_id, _text(error))
    journal.write("injected", fault_id)


def _take_back(journal: Journal, fault_id: int, reason: str) -> None:
    """Undo a fault that did not work, and say so; never returns."""
    try:
        note = faults.undo(journal.faults[fault_id])
    except OSError as error:
        raise FaultError(
            f"fault {fault_id} does not bite ({reason}) and could not be undone: {_text(error)}"
        ) from error
    journal.write("undone", fault_id, reason=reason, note=note)
    raise FaultError(f"the fault does not bite and was undone: {reason}")


def _text(error: OSError) -> str:
    if error.errno == errno.EBUSY:
        return f"{error.filename} is in use as a mount point, it can be neither renamed nor deleted"
    return f"{error.strerror}: {error.filename}" if error.filename else str(error)

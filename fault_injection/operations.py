"""Inject and heal as a whole: refuse, journal, start the timer, break, prove, or undo."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import time
import zlib
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from fault_injection import check, process_control, processes, registry
from fault_injection.errors import FaultError
from fault_injection.fuse import disk
from fault_injection.journal import Fault, Journal, read_faults
from fault_injection.kinds import KINDS, FaultSpec, Scope
from fault_injection.mechanism import Broken, Healing, Start, Target, TargetBroker
from jbodlab.cli.lab_state import STATE_DIR_VARIABLE

_OWN_FILES = (Path(__file__).resolve(), Path(os.path.realpath(sys.prefix)) / "bin")
"""The files that `heal` needs to run."""

_TOGETHER = (
    *("preload", "fuse", "process", "balloon", "connections", "packets"),
    *("certificates", "administrator"),
)
"""Mechanisms whose faults can be reverted in any order, so that one place may have several."""

_BROKERS = 1 << 40
"""Numbers of brokers among what a journal holds begin here, far above those of faults."""

SetTimer = Callable[[Fault, Journal], None]
"""Starts a timer that heals a fault at the end of its length, even if this process ends.

It is called before anything is changed, and raises `FaultError` where it cannot start one.
"""


def directory_target(
    given: str, wanted_user: str | None, broker: TargetBroker | None = None
) -> Target:
    """Return a log directory as a target.

    Args:
        given: The directory, as the operator wrote it; links are followed.
        wanted_user: User that the broker runs as, id or name; None for the directory's owner.
        broker: Its broker, where it is known.

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
    return Target(directory=path, broker=broker, uid=user.uid, gid=user.gid)


def inject(
    spec: FaultSpec, target: Target, journal: Journal, *, start: Start, set_timer: SetTimer
) -> Fault:
    """Break something and prove the effect, or change nothing.

    Args:
        spec: The fault to inject.
        target: Where.
        journal: Open journal.
        start: Starts the process that a fault ended.
        set_timer: Called for a fault with a length, before the first change.

    Raises:
        FaultError: refused, or the fault had no effect and was reverted.
    """
    with journal.begin(lambda fault_id: _plan(spec, target, journal, fault_id)) as fault:
        if spec.length_s is not None:
            _set_timer(fault, journal, set_timer)
        with journal.hold(*_broker_of(fault)):
            _make(journal, fault.fault_id, start)
            made = journal.faults[fault.fault_id]
            if failure := registry.MECHANISMS[made.mechanism].verify(made):
                _revert_and_raise(journal, fault.fault_id, failure, start)
            journal.write("proved", fault.fault_id)
        return journal.faults[fault.fault_id]


def heal(fault_id: int, journal: Journal, *, start: Start) -> Healing:
    """Undo one fault.

    Raises:
        FaultError: no such fault, it is closed already, or it could not be undone and stays open.
    """
    healing = heal_if_open(fault_id, journal, start=start)
    if healing is None:
        state = journal.faults[fault_id].state
        fate = "reverted" if state == "unproved" else state
        raise FaultError(f"fault {fault_id} is not open: it was {fate} already")
    return healing


def heal_if_open(fault_id: int, journal: Journal, *, start: Start) -> Healing | None:
    """Undo one fault; None where that was done already.

    Raises:
        FaultError: no such fault, or it could not be undone and stays open.
    """
    with journal.hold(fault_id, *_broker_of(_known(fault_id, journal))):
        fault = _known(fault_id, journal)
        return _heal(fault, journal, start) if fault.is_open else None


def heal_if_due(fault_id: int, journal: Journal, *, start: Start) -> int | None:
    """Undo a fault whose length is over; waits for whoever is just making or healing it.

    Returns:
        When to ask again, on the monotonic clock, as it took effect later than expected; None
        where nothing is left to be done.

    Raises:
        FaultError: it could not be undone, and stays open.
    """
    if fault_id not in journal.faults:
        return None
    with journal.hold(fault_id, *_broker_of(journal.faults[fault_id])):
        fault = _known(fault_id, journal)
        if not fault.is_open:
            return None
        if fault.until_ns is not None and fault.until_ns > time.monotonic_ns():
            return fault.until_ns
        _heal(fault, journal, start)
        return None


def healed_line(fault: Fault, healing: Healing) -> str:
    """Return one line about a fault that was healed."""
    notes = [note for note in (healing.note, healing.next_step) if note]
    return "; ".join([f"fault {fault.fault_id} healed: {fault.kind} on {fault.path}", *notes])


def broken(fault: Fault) -> Broken:
    """Return what a fault broke so far, or until it was healed."""
    if fault.broken:
        return Broken.of_json(fault.broken)
    return registry.MECHANISMS[fault.mechanism].broken(fault)


def _plan(spec: FaultSpec, target: Target, journal: Journal, fault_id: int) -> dict[str, Any]:
    """Return what the journal says before anything is changed; nothing is changed here."""
    _refuse_together(spec, target.path, read_faults(journal.path))
    if target.directory in journal.path.parents:
        raise FaultError(
            f"the journal {journal.path} is in {target.path}: name another folder in "
            f"{STATE_DIR_VARIABLE}"
        )
    try:
        name = registry.choose(spec, target)
        undo = registry.MECHANISMS[name].prepare(spec, target, fault_id)
    except (FaultError, OSError) as error:
        raise FaultError(f"nothing injected: {_text(error)}") from error
    return {
        "kind": spec.kind,
        "mechanism": name,
        "path": str(target.path),
        "broker": target.broker.name if target.broker else "",
        "uid": target.uid,
        "gid": target.gid,
        "length_s": spec.length_s,
        "undo": undo,
    }


def _broker_of(fault: Fault) -> list[int]:
    """Return the number of the broker that a fault stops or starts; empty where it does not.

    Two faults may need the same broker stopped: one of them at a time.
    """
    recipe = fault.undo.get(process_control.RECIPE)
    if recipe is None:
        return []
    return [_BROKERS + zlib.crc32(json.dumps(recipe["command"]).encode())]


def _set_timer(fault: Fault, journal: Journal, set_timer: SetTimer) -> None:
    try:
        set_timer(fault, journal)
    except (FaultError, OSError) as error:
        journal.write("undone", fault.fault_id, reason=_text(error))
        raise FaultError(f"nothing injected: {_text(error)}") from error


def _known(fault_id: int, journal: Journal) -> Fault:
    fault = journal.faults.get(fault_id)
    if fault is None:
        raise FaultError(f"no fault {fault_id} in the journal")
    return fault


def _heal(fault: Fault, journal: Journal, start: Start) -> Healing:
    fault_id = fault.fault_id
    journal.write("healing", fault_id)
    try:
        counted = broken(fault)
        healing = registry.MECHANISMS[fault.mechanism].undo(fault, start)
    except (OSError, FaultError) as error:
        journal.write("heal-failed", fault_id, reason=_text(error))
        raise FaultError(f"fault {fault_id} could not be healed: {_text(error)}") from error
    journal.write("healed", fault_id, note=healing.note, broken=asdict(counted))
    _end_timer(fault)
    return healing


def _end_timer(fault: Fault) -> None:
    """End the process that waits to heal a fault, unless that is this one."""
    if fault.timer is not None and fault.timer.pid != os.getpid():
        processes.send(fault.timer, signal.SIGTERM)


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
        raise FaultError(f"{path} is the root of the file system, which is never broken")
    if any(path in own.parents for own in _OWN_FILES):
        raise FaultError(f"{path} contains the program that has to heal it")
    return path


def _refuse_together(spec: FaultSpec, path: Path, open_faults: Iterable[Fault]) -> None:
    """Two faults that move things in one tree could not be undone in any order."""
    is_of_broker = KINDS[spec.kind].scope is not Scope.DIRECTORY
    for fault in open_faults:
        if path == fault.path and is_of_broker and spec.kind == fault.kind:
            raise FaultError(f"{path} already has an open fault: {fault.fault_id}")
        if is_of_broker or fault.mechanism in _TOGETHER:
            continue
        if path == fault.path:
            raise FaultError(f"{path} already has an open fault: {fault.fault_id}")
        if fault.path in path.parents or path in fault.path.parents:
            raise FaultError(f"{path} overlaps {fault.path}, where fault {fault.fault_id} is open")


def _make(journal: Journal, fault_id: int, start: Start) -> None:
    fault = journal.faults[fault_id]
    mechanism = registry.MECHANISMS[fault.mechanism]
    try:
        struck_ns = mechanism.make(
            fault, lambda more: journal.write("more", fault_id, **more), start
        )
    except (OSError, FaultError) as error:
        _revert_and_raise(journal, fault_id, _text(error), start)
    if not journal.faults[fault_id].is_open:
        # This process was stopped for so long that it was healed meanwhile.
        _revert_and_raise(journal, fault_id, "its length was over before it took effect", start)
    journal.write("injected", fault_id, struck_ns=struck_ns)


def _revert_and_raise(journal: Journal, fault_id: int, reason: str, start: Start) -> NoReturn:
    """Undo a fault that did not work, and say so."""
    fault = journal.faults[fault_id]
    try:
        healing = registry.MECHANISMS[fault.mechanism].undo(fault, start)
    except (OSError, FaultError) as error:
        journal.write("heal-failed", fault_id, reason=_text(error))
        raise FaultError(
            f"fault {fault_id} had no effect ({reason}) and could not be reverted: {_text(error)}"
        ) from error
    journal.write("undone", fault_id, reason=reason, note=healing.note)
    _end_timer(fault)
    raise FaultError(f"the fault had no effect and was reverted: {reason}")


def _text(error: OSError | FaultError) -> str:
    if isinstance(error, FaultError):
        return str(error)
    if error.errno == errno.EBUSY:
        return f"{error.filename} is a mount point in use: it cannot be renamed or deleted"
    return f"{error.strerror}: {error.filename}" if error.filename else str(error)

"""`jbodlab inject` and `heal`: faults of one cluster, with what its brokers make of them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fault_injection import kinds, operations
from fault_injection.errors import FaultError
from fault_injection.journal import read_faults
from fault_injection.kinds import FaultSpec
from fault_injection.mechanism import Target
from jbodlab import lab_state
from lab.cluster import Cluster, Fault, NotInTimeError, programs
from lab.cluster.log_dir_states import offline, revive
from lab.commands import arguments, clusters
from lab.errors import LabError
from lab.interrupts import Interrupts
from lab.rehearsal.detecting import Detecting
from lab.state_files import StateFiles


def run(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Carry it out; returns the exit code."""
    files = StateFiles.open()
    with files.lock(options.name):
        cluster = clusters.opened(files, options.name, interrupts)
        try:
            if options.command == "inject":
                return _inject(options, cluster, interrupts)
            return _heal(options, cluster, interrupts)
        except FaultError as error:
            raise LabError(str(error)) from error


def wanted(options: argparse.Namespace, cluster: Cluster, word: str) -> tuple[FaultSpec, Target]:
    """Return the fault that the words of a command line describe, and its target.

    Raises:
        LabError, FaultError: the words are wrong.
    """
    words = {key: getattr(options, f"word_{key}") for key in arguments.PARAMETERS}
    return described(cluster, options.kind, word, words)


def described(
    cluster: Cluster, kind: str, word: str, words: Mapping[str, Any]
) -> tuple[FaultSpec, Target]:
    """Return the fault of a kind that words describe, and its target; raises as `wanted`."""
    told = dict(words)
    broker, directory = clusters.target(cluster, word)
    other = told.get("with")
    if isinstance(other, str) and other.isdecimal():
        told["with"] = str(clusters.target(cluster, f"{broker.id}/{other}")[1].path)  # type: ignore[union-attr]
    spec = kinds.spec(kind, told)
    return spec, broker.target() if directory is None else directory.target()


def _inject(options: argparse.Namespace, cluster: Cluster, interrupts: Interrupts) -> int:
    spec, target = wanted(options, cluster, options.target)
    detecting = Detecting(cluster, target)
    with interrupts.deferred():
        fault = cluster.faults.inject(spec, target)
    text = f"fault {fault.id}: {fault.kind} on {options.target} by {fault.mechanism}, proved"
    until = spec.length_s
    text += "" if until is None else f"; heals by itself after {until:g} s"
    data: dict[str, Any] = {**_described(fault), "length_s": until, "noticed": None}
    if not options.no_wait:
        seen = detecting.wait(spec, fault.injected_ns)
        data["noticed"] = None if seen is None else asdict(seen)
        text += f"\n{options.target}: {seen}" if seen else f"\n{detecting.not_detected}"
        broken = fault.broken
        data["broken"] = asdict(broken)
        text += f"\nbroken so far: {broken.count} {broken.what}"
    clusters.show(options.json, data, text)
    return 0


def _heal(options: argparse.Namespace, cluster: Cluster, interrupts: Interrupts) -> int:
    lines, problems, healed = heal_open(cluster, options.ids, interrupts.deferred)
    if not lines and not problems:
        lines.append("no open faults")
    to_do, came_back = afterwards(options.name, cluster, problems, reviving=options.revive)
    clusters.show(
        options.json,
        {"healed": healed, "revived": came_back, "to_do": to_do, "problems": problems},
        "\n".join([*lines, *(f"{path} is online again" for path in came_back), *to_do]),
    )
    if problems:
        raise LabError("; ".join(problems))
    return 0


def heal_open(
    cluster: Cluster, ids: Collection[int], guard: Callable[[], AbstractContextManager[None]]
) -> tuple[list[str], list[str], list[dict[str, Any]]]:
    """Undo open faults of a cluster, the newest first.

    Args:
        cluster: The cluster.
        ids: Which; all if empty.
        guard: Entered around each.

    Returns:
        A line for each that was healed, what went wrong, and the healed ones as JSON.

    Raises:
        LabError: one of them is not open.
    """
    open_faults = [
        fault
        for fault in read_faults(cluster.faults.journal)[::-1]
        if cluster.root in fault.path.parents
    ]
    unknown = set(ids) - {fault.fault_id for fault in open_faults}
    if unknown:
        raise LabError(f"cluster {cluster.state.name} has no open fault {min(unknown)}")
    lines, problems, healed = [], [], []
    for fault in open_faults:
        if ids and fault.fault_id not in ids:
            continue
        try:
            with guard():
                healing = cluster.faults.heal(fault.fault_id)
        except FaultError as error:
            problems.append(str(error))
            continue
        if healing is not None:
            lines.append(operations.healed_line(fault, healing))
            healed.append({"id": fault.fault_id, **asdict(healing)})
    return lines, problems, healed


def afterwards(
    name: str, cluster: Cluster, problems: list[str], *, reviving: bool
) -> tuple[list[str], list[str]]:
    """Return what is still to be done, and the directories that were brought back.

    Args:
        name: Name of the cluster.
        cluster: The cluster.
        problems: Gets what could not be brought back.
        reviving: Whether directories are brought back.
    """
    named = "" if name == lab_state.DEFAULT_NAME else f" --name {name}"
    word = programs.jbodlab()
    to_do = [
        f"broker-{broker.id} does not run: {word} start broker-{broker.id}{named}"
        for broker in cluster.brokers
        if not broker.is_running
    ]
    running = [broker for broker in cluster.brokers if broker.is_running]
    try:
        cluster.wait_served(*running)
    except (NotInTimeError, LabError) as error:
        return [*to_do, str(error).splitlines()[0]], []
    came_back = []
    for broker, entry in offline(running):
        number = broker.paths.index(Path(entry.path)) + 1
        if not reviving:
            to_do.append(
                f"broker-{broker.id}/{number} is still offline ({entry.cause}): "
                f"{word} heal --revive{named}, or {word} restart broker-{broker.id}{named}"
            )
        elif refusal := revive(broker, entry.path):
            problems.append(f"broker-{broker.id}/{number} does not come back: {refusal}")
        else:
            came_back.append(f"broker-{broker.id}/{number}")
    return to_do, came_back


def _described(fault: Fault) -> dict[str, Any]:
    return {
        "id": fault.id,
        "kind": fault.kind,
        "mechanism": fault.mechanism,
        "broker": fault.patient,
        "path": str(fault.path),
        "injected_ns": fault.injected_ns,
        "proved_ns": fault.proved_ns,
    }

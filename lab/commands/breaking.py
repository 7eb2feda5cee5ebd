"""`jbodlab inject`, `heal` and `faults check`, with what brokers make of the faults.

A fault is about a broker or directory of a cluster, or about a log directory by its path, whichever
server uses it.
"""

from __future__ import annotations

import contextlib
import os
import time
from argparse import Namespace
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fault_injection import journal, kinds, operations, process_control, registry, targets
from fault_injection.errors import FaultError
from fault_injection.journal import read_faults
from fault_injection.kinds import FaultSpec
from fault_injection.mechanism import Target
from jbodlab.cli.choice import machine_cluster
from jbodlab.cli.output import Output
from jbodlab.cli.parser import UsageError
from lab import opened
from lab.cluster import Cluster, Fault, NotInTimeError
from lab.cluster.faults import Faults
from lab.cluster.log_dir_states import offline
from lab.cluster.revival import revive
from lab.errors import LabError
from lab.machine import programs
from lab.machine.interrupts import Interrupts
from lab.state_files import StateFiles
from lab.watch.detecting import detecting

if TYPE_CHECKING:
    from jbodlab.cli.results import Broken, Detected, Healed, HealedFault, Injected

CLIENTS_S = 3.0
"""Clients that have lost something try again within that time."""


@contextlib.contextmanager
def _in_one_line() -> Iterator[None]:
    """Raise what the injector refuses as an error of the lab."""
    try:
        yield
    except FaultError as error:
        raise LabError(str(error)) from error


def inject(options: Namespace, output: Output, interrupts: Interrupts) -> int:
    """Inject a fault; returns the exit code."""
    if _is_about_path(options):
        return _inject_at_path(options, output, interrupts)
    name = machine_cluster(options.cluster, output)
    files = StateFiles.open()
    with files.lock(name), _in_one_line():
        cluster = opened.opened(files, name, interrupts)
        return _inject(options, output, cluster, interrupts)


def heal(options: Namespace, output: Output, interrupts: Interrupts) -> int:
    """Heal faults; returns the exit code."""
    files = StateFiles.open()
    with _in_one_line():
        name = _cluster_to_heal(options, output, files)
        if name is None:
            return _heal_anywhere(options, output, files, interrupts)
        with files.lock(name):
            cluster = opened.opened(files, name, interrupts)
            return _heal(options, output, cluster, interrupts)


def check(options: Namespace, output: Output, _: Interrupts) -> int:
    """Tell whether a fault can be injected; returns the exit code."""
    files = StateFiles.open()
    with _in_one_line():
        if _is_about_path(options):
            spec, target = _spec(options), _target_at_path(options, files)
        else:
            cluster = opened.opened(files, machine_cluster(options.cluster, output), None)
            spec, target = wanted(options, cluster, options.target)
        mechanism = registry.choose(spec, target)
    output.result(
        {"kind": spec.kind, "path": str(target.path), "mechanism": mechanism},
        f"{spec.kind} can be injected into {target.path} by {mechanism}",
    )
    return 0


def wanted(options: Namespace, cluster: Cluster, word: str) -> tuple[FaultSpec, Target]:
    """Return the fault that the words of a command line describe, and its target.

    Raises:
        LabError, FaultError: the words are wrong.
    """
    return opened.described(cluster, options.kind, word, _words(options))


def _words(options: Namespace) -> dict[str, Any]:
    return {key: getattr(options, f"word_{key}") for key in kinds.PARAMETERS}


def _inject(options: Namespace, output: Output, cluster: Cluster, interrupts: Interrupts) -> int:
    spec, target = wanted(options, cluster, options.target)
    # No server notices what users lack.
    is_noticed = not kinds.KINDS[spec.kind].hits_clients
    with detecting(cluster, target) if is_noticed else contextlib.nullcontext() as watch:
        with interrupts.deferred():
            fault = cluster.faults.inject(spec, target)
        lines = [_injected_line(fault, options.target, spec)]
        data: Injected = {**_described(fault, spec), "noticed": None}
        if not options.no_wait:
            told = "broken so far"
            if watch is None:
                time.sleep(CLIENTS_S)
                told = f"clients after {CLIENTS_S:g} s"
            elif seen := watch.wait(spec, fault.injected_ns):
                data["noticed"] = cast("Detected", asdict(seen))
                lines.append(f"{options.target}: {seen}")
            else:
                lines.append(watch.not_detected(spec))
            broken = fault.broken
            data["broken"] = cast("Broken", asdict(broken))
            lines.append(f"{told}: {broken}")
    output.result(data, "\n".join(lines))
    return 0


def _inject_at_path(options: Namespace, output: Output, interrupts: Interrupts) -> int:
    files = StateFiles.open()
    with _in_one_line():
        spec, target = _spec(options), _target_at_path(options, files)
        with interrupts.deferred():
            fault = _faults_anywhere(files).inject(spec, target)
    output.result(_described(fault, spec), _injected_line(fault, str(fault.path), spec))
    return 0


def _injected_line(fault: Fault, where: str, spec: FaultSpec) -> str:
    line = f"fault {fault.id}: {fault.kind} on {where} by {fault.mechanism}, proved"
    return line if spec.length_s is None else f"{line}; heals by itself after {spec.length_s:g} s"


def _is_about_path(options: Namespace) -> bool:
    """Return whether a fault is about a path, not about a cluster.

    Raises:
        UsageError: it is about both, or neither.
    """
    if (options.path is None) == (options.target is None):
        raise UsageError("expected TARGET, such as broker-1/2, or --path DIR")
    if options.path is None and options.user is not None:
        raise UsageError("--user is only for --path")
    if options.path is not None and options.cluster is not None:
        raise UsageError("--cluster and --path exclude each other")
    return options.path is not None


def _spec(options: Namespace) -> FaultSpec:
    return kinds.spec(options.kind, _words(options))


def _target_at_path(options: Namespace, files: StateFiles) -> Target:
    scope = kinds.kind_named(options.kind).scope
    if scope is kinds.Scope.BROKER:
        raise LabError(f"{options.kind} breaks a broker: name it, such as broker-1, not --path")
    if scope is kinds.Scope.CLUSTER:
        raise LabError(f"{options.kind} is a fault of a cluster: name {opened.WHOLE}, not --path")
    user = targets.patient_with(files.directory, options.path)
    return operations.directory_target(options.path, options.user, user)


def _faults_anywhere(files: StateFiles) -> Faults:
    return Faults(files.journal, start=process_control.start, outlives_us=True)


def _cluster_to_heal(options: Namespace, output: Output, files: StateFiles) -> str | None:
    """Return the cluster whose faults are healed; None where they are in none, or in any."""
    if options.path is not None or options.all:
        if options.ids or options.cluster or options.revive or (options.path and options.all):
            raise UsageError("--path and --all exclude all other choices of faults, and --revive")
        return None
    if options.cluster is not None or not options.ids:
        return machine_cluster(options.cluster, output)
    found = {fault.fault_id: fault for fault in read_faults(files.journal)}
    roots = {files.root(name): name for name in files.names()}
    owners = {
        next((roots[path] for path in found[number].path.parents if path in roots), None)
        for number in options.ids
        if number in found
    }
    return owners.pop() if len(owners) == 1 else None


def _heal_anywhere(
    options: Namespace, output: Output, files: StateFiles, interrupts: Interrupts
) -> int:
    faults = _faults_anywhere(files)
    found = read_faults(faults.journal)
    if options.path is not None:
        top = Path(os.path.realpath(options.path))
        found = [fault for fault in found if top == fault.path or top in fault.path.parents]
    lines, problems, healed = _heal_each(faults, found, options.ids, interrupts.deferred)
    return _show_healed(output, lines, {"healed": healed, "problems": problems})


def _heal(options: Namespace, output: Output, cluster: Cluster, interrupts: Interrupts) -> int:
    lines, problems, healed = heal_open(cluster, options.ids, interrupts.deferred)
    name = cluster.state.name
    to_do, came_back = afterwards(name, cluster, problems, reviving=options.revive)
    more = [*(f"{path} is online again" for path in came_back), *to_do]
    shown: Healed = {"healed": healed, "revived": came_back, "to_do": to_do, "problems": problems}
    return _show_healed(output, lines, shown, more)


def _show_healed(output: Output, lines: list[str], shown: Healed, more: Sequence[str] = ()) -> int:
    if not lines and not shown["problems"]:
        lines = ["no open faults"]
    output.result(shown, "\n".join([*lines, *more]))
    if shown["problems"]:
        raise LabError("; ".join(shown["problems"]))
    return 0


def heal_open(
    cluster: Cluster, ids: Collection[int], guard: Callable[[], AbstractContextManager[None]]
) -> tuple[list[str], list[str], list[HealedFault]]:
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
        fault for fault in read_faults(cluster.faults.journal) if cluster.root in fault.path.parents
    ]
    return _heal_each(cluster.faults, open_faults, ids, guard)


def _heal_each(
    faults: Faults,
    found: list[journal.Fault],
    ids: Collection[int],
    guard: Callable[[], AbstractContextManager[None]],
) -> tuple[list[str], list[str], list[HealedFault]]:
    unknown = set(ids) - {fault.fault_id for fault in found}
    if unknown:
        raise LabError(
            f"fault {min(unknown)} is not open here; `jbodlab faults list` lists the open faults"
        )
    lines, problems = [], []
    healed: list[HealedFault] = []
    # Faults of one place are undone in reverse order.
    for fault in found[::-1]:
        if ids and fault.fault_id not in ids:
            continue
        try:
            with guard():
                healing = faults.heal(fault.fault_id)
        except FaultError as error:
            problems.append(str(error))
            continue
        if healing is not None:
            lines.append(operations.healed_line(fault, healing))
            healed.append(
                {"id": fault.fault_id, "note": healing.note, "next_step": healing.next_step}
            )
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
    to_do = [
        f"{node.name} does not run: {programs.call(f'start {node.name}', name)}"
        for node in cluster.nodes.values()
        if not node.is_running
    ]
    running = [broker for broker in cluster.brokers if broker.is_running]
    try:
        cluster.wait_served(*running)
    except (NotInTimeError, LabError) as error:
        return [*to_do, str(error).splitlines()[0]], []
    came_back = []
    for broker in running:
        entries = offline(broker, are_ours=not cluster.engine.is_kafka)
        paths = [entry.path for entry in entries]
        refusals = revive(cluster, broker, paths) if reviving and paths else {}
        for entry in entries:
            place = f"broker-{broker.id}/{broker.paths.index(Path(entry.path)) + 1}"
            if not reviving:
                to_do.append(
                    f"{place} is still offline ({entry.reason}): "
                    f"{programs.call('heal --revive', name)}, or "
                    f"{programs.call(f'restart broker-{broker.id}', name)}"
                )
            elif refusal := refusals.get(entry.path):
                problems.append(f"{place} does not come back: {refusal}")
            else:
                came_back.append(place)
    return to_do, came_back


def _described(fault: Fault, spec: FaultSpec) -> Injected:
    return {
        "id": fault.id,
        "kind": fault.kind,
        "mechanism": fault.mechanism,
        "broker": fault.broker,
        "path": str(fault.path),
        "injected_ns": fault.injected_ns,
        "proved_ns": fault.proved_ns,
        "length_s": spec.length_s,
    }

"""The two that apply the rules for calls: a library in the broker, or a disk."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from fault_injection import mounts
from fault_injection.fuse import disk
from fault_injection.journal import Fault
from fault_injection.mechanism import Target
from fault_injection.preload import CallClass, Control, Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """Rules that a child follows while something is proved, and nobody else.

    Attributes:
        control: The rules; there are none at first.
        variables: Variables that the child needs in its environment to follow them.
    """

    control: Control
    variables: dict[str, str] = field(default_factory=dict)


class Follower(Protocol):
    """Carries out rules."""

    def refusal(self, target: Target) -> str:
        """Return why it is not there for a target, as one sentence; empty if it is."""

    def rules(self, target: Target) -> Path:
        """Return the file of rules that it follows."""

    def get_ready(self, control: Control, rule: Rule) -> None:
        """Do what has to be done before a rule is put in force."""

    def copy(self, fault: Fault) -> AbstractContextManager[Copy]:
        """Provide rules for a child, gone afterwards."""

    def look_after(self, fault: Fault) -> str:
        """See, while a fault is healed, that nothing dead is left; returns what was found."""


class Preloaded:
    """The library that a broker was started with."""

    def refusal(self, target: Target) -> str:
        """Return why the broker does not follow rules by it."""
        broker = target.broker
        if broker is None:
            return f"the broker of {target.path} is unknown: name the broker too"
        if broker.rules is None:
            return broker.advice.not_preloaded(broker.name)
        if broker.process is None:
            return ""
        maps = Path(f"/proc/{broker.process.pid}/maps")
        with contextlib.suppress(OSError):
            if "/faults-" not in maps.read_text("utf-8", "replace"):
                return f"{broker.name} did not load the preloaded library"
        return ""

    def rules(self, target: Target) -> Path:
        """Return the control file that the broker was started with."""
        assert target.broker is not None
        assert target.broker.rules is not None
        return target.broker.rules

    def get_ready(self, control: Control, rule: Rule) -> None:
        """Nothing is remembered that had to be forgotten."""

    @contextlib.contextmanager
    def copy(self, fault: Fault) -> Iterator[Copy]:
        """Provide rules for a child that loads the library."""
        with new_rules(fault) as control:
            yield Copy(control=control, variables=control.environment())

    def look_after(self, fault: Fault) -> str:
        return ""


class OnFuseDisk:
    """The process that serves the disk of a directory, whoever uses it."""

    def refusal(self, target: Target) -> str:
        """Return why nobody serves the disk."""
        found = mounts.own_disk(target.path)
        if found is None or found.kind != disk.KIND:
            return target.advice.not_on("fuse", target.path)
        if disk.is_dead(found):
            return f"the process that served {found.point} has ended"
        rules = disk.rules_of(found)
        return "" if os.access(rules, os.W_OK) else f"this user may not write to {rules}"

    def rules(self, target: Target) -> Path:
        """Return the file that the disk follows."""
        found = mounts.own_disk(target.path)
        assert found is not None
        return disk.rules_of(found)

    def get_ready(self, control: Control, rule: Rule) -> None:
        """Let the kernel forget what it has read, so that reading comes to the disk again."""
        # Where another fault is in force, looking for the files might not come back.
        if rule.calls & CallClass.READ and not control.in_force:
            for folder, _, names in os.walk(rule.directory):
                for name in names:
                    with contextlib.suppress(OSError):
                        _forget(Path(folder, name))

    @contextlib.contextmanager
    def copy(self, fault: Fault) -> Iterator[Copy]:
        """Provide rules that the disk follows for files of proofs alone."""
        control = Control.open(disk.proofs_of(Path(fault.undo["rules"])))
        try:
            yield Copy(control=control)
        finally:
            control.clear()

    def look_after(self, fault: Fault) -> str:
        """Unmount the disk if the process that served it is gone."""
        return disk.remove_dead(fault.path)


@contextlib.contextmanager
def new_rules(fault: Fault) -> Iterator[Control]:
    """Provide a file of rules that a child of the fault's user follows, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="jbod-proof-"))
    try:
        folder.chmod(0o755)
        yield Control.create(folder / "rules", fault.uid, fault.gid)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _forget(file: Path) -> None:
    fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)

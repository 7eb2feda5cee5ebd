"""The files that describe clusters: written before and after every step, locked while in use.

A process that starts, uses or ends a cluster holds its lock; the kernel lets go of it when that
process dies, however it dies. A state file with an owner whose lock is free is what a killed
process left.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from jbodlab.cli import lab_state
from jbodlab.cli.lab_state import ClusterState
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary.errors import DecodeError
from lab.errors import LabError
from lab.machine.disks import make_folder


class StateFiles:
    """All clusters of one state directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.journal = lab_state.journal_file(directory)

    @classmethod
    def open(cls) -> StateFiles:
        """Open the state directory of this user, creating it where it is missing.

        Raises:
            LabError: it cannot be created, or belongs to somebody else.
        """
        directory = lab_state.state_dir(os.environ, os.geteuid())
        try:
            if not (directory / "clusters").exists():
                make_folder(directory / "clusters")
            owner = directory.stat().st_uid
        except OSError as error:
            raise LabError(
                f"cannot create {directory}: {error.strerror}; name another folder in "
                f"{lab_state.STATE_DIR_VARIABLE}"
            ) from error
        if owner != os.geteuid():
            raise LabError(
                f"{directory} belongs to uid {owner}; name another folder in "
                f"{lab_state.STATE_DIR_VARIABLE}"
            )
        return cls(directory)

    def root(self, name: str) -> Path:
        """Return the folder that holds everything of a cluster."""
        return self.directory / "clusters" / name

    def names(self) -> list[str]:
        """Return the names of clusters that are described, sorted."""
        return sorted(file.stem for file in (self.directory / "clusters").glob("*.json"))

    def read(self, name: str) -> ClusterState | None:
        """Return what is written about a cluster; None if nothing is.

        Raises:
            LabError: the file cannot be read.
        """
        file = lab_state.cluster_file(self.directory, name)
        try:
            return lab_state.from_json(file.read_text("utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, DecodeError) as error:
            raise LabError(f"cannot read {file}: {error}") from error

    def write(self, state: ClusterState) -> None:
        """Write down a cluster, for this user alone, replacing what was known of it.

        Options of a JVM may have passwords in them.
        """
        file = lab_state.cluster_file(self.directory, state.name)
        new = file.with_suffix(".new")
        new.touch(mode=0o600)
        PosixFileSystem().write_bytes(new, lab_state.to_json(state).encode(), sync=True)
        new.replace(file)

    def remove(self, name: str) -> None:
        """Forget a cluster."""
        lab_state.cluster_file(self.directory, name).unlink(missing_ok=True)

    @contextlib.contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Hold the lock of a cluster.

        Raises:
            LabError: another process holds it.
        """
        with self.try_lock(name) as is_held:
            if not is_held:
                raise LabError(f"cluster {name} is in use by another jbodlab command right now")
            yield

    @contextlib.contextmanager
    def try_lock(self, name: str) -> Iterator[bool]:
        """Hold the lock of a cluster if nobody else does; tells whether it is held."""
        file = self.directory / "clusters" / f"{name}.lock"
        fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True
        finally:
            os.close(fd)

"""Faults by ordinary file operations; files that are open already go on working.

    permission       the directory keeps its place and loses all permissions
    read-only-bits   chmod -R a-w: nothing below can be written, all can be read
    file-in-place    the directory is moved aside, a regular file takes its place
    deleted          the directory is moved aside, nothing takes its place
    replaced         the directory is moved aside, an empty one takes its place
    files-deleted    files are moved aside, the directory stays

A directory that is moved aside stays on its disk and keeps its inode; what was written to its path
meanwhile is kept too.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import os
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fault_injection import check, mounts
from fault_injection.check import User
from fault_injection.errors import FaultError
from fault_injection.journal import Fault
from fault_injection.kinds import FaultSpec
from fault_injection.mechanism import Broken, Healing, RecordUndo, Start, Target

WRITE_BITS = 0o222
META_PROPERTIES = "meta.properties"
_ATTEMPTS_MAX = 10
"""How often the undoing clears a path that somebody keeps filling again."""
_MOVING = ("file-in-place", "deleted", "replaced")


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """The data that reverts such a fault.

    Attributes:
        inode: Inode number of the directory, which tells it from a later one at the same path.
        modes: Permission bits by path relative to the directory, `.` itself included.
        aside: Where the directory was moved to; empty for the kinds that leave it in its place.
        marker: Content of the file that was put in its place, if one was.
        replicas: How many replicas lay in it.
        files: Paths, relative to the directory, of single files that were moved aside: the first to
            `aside`/0, the next one to `aside`/1.
    """

    inode: int
    modes: dict[str, int]
    aside: str = ""
    marker: str = ""
    replicas: int = 0
    files: list[str] = field(default_factory=list)


class FileOperations:
    """The mechanism `files`."""

    def refusal(self, spec: FaultSpec, target: Target) -> str:
        path = target.path
        if spec.kind in _MOVING and mounts.is_mounted(path):
            return (
                f"{path} is a mount point, which cannot be renamed or deleted; name a folder "
                "inside it"
            )
        user = User(target.uid, target.gid)
        error = check.create_error(path, user)
        if error:
            return (
                f"uid {user.uid} cannot create files in {path} even without the fault "
                f"({os.strerror(error)})"
            )
        return ""

    def prepare(self, spec: FaultSpec, target: Target, fault_id: int) -> dict[str, Any]:
        path, found = target.path, target.path.stat()
        modes = {".": stat.S_IMODE(found.st_mode)}
        if spec.kind == "read-only-bits":
            modes |= {str(entry.relative_to(path)): mode for entry, mode in _walk(path)}
        aside = marker = ""
        files = []
        if spec.kind == "files-deleted":
            files = [
                str(entry.relative_to(path))
                for entry, _ in _walk(path)
                if fnmatch.fnmatch(entry.name, spec.files) and not entry.is_dir()
            ]
        if spec.kind in (*_MOVING, "files-deleted"):
            aside = aside_of(path, aside_folder(path), fault_id)
        if spec.kind == "file-in-place":
            marker = f"put here by jbod-fault {fault_id}\n"
        return asdict(
            Undo(
                inode=found.st_ino,
                modes=modes,
                aside=aside,
                marker=marker,
                replicas=replicas_in(path),
                files=files,
            )
        )

    def make(self, fault: Fault, record: RecordUndo, start: Start) -> None:
        known = Undo(**fault.undo)
        match fault.kind:
            case "permission":
                fault.path.chmod(0)
            case "read-only-bits":
                _take_write_bits(fault.path, known.modes, record)
            case "files-deleted":
                Path(known.aside).mkdir()
                for number, name in enumerate(known.files):
                    with contextlib.suppress(FileNotFoundError):
                        (fault.path / name).rename(Path(known.aside) / str(number))
            case _:
                Path(known.aside).parent.stat()
                fault.path.rename(known.aside)
                if known.marker:
                    _write_marker(fault.path, known)
                elif fault.kind == "replaced":
                    make_like(fault.path, Path(known.aside))

    def verify(self, fault: Fault) -> str:
        if fault.kind == "files-deleted":
            return _why_files_are_there(fault.path, Undo(**fault.undo).files)
        if fault.kind == "replaced":
            is_same = inode(fault.path) == Undo(**fault.undo).inode
            return f"{fault.path} is the directory from before" if is_same else ""
        if check.create_error(fault.path, User(fault.uid, fault.gid)):
            return ""
        return f"uid {fault.uid} can still create files in {fault.path}" + (
            ", since root may write everywhere" if fault.uid == 0 else ""
        )

    def undo(self, fault: Fault, start: Start) -> Healing:
        known = Undo(**fault.undo)
        if fault.kind == "files-deleted":
            return Healing(note=_put_back(fault.path, known))
        if known.aside:
            return Healing(note=move_back(fault, known))
        if inode(fault.path) != known.inode:
            shown = f"{known.modes['.']:04o}"
            return Healing(note=f"{fault.path} was removed or replaced; its mode was {shown}")
        _restore_modes(fault.path, known.modes)
        return Healing()

    def broken(self, fault: Fault) -> Broken:
        found = Undo(**fault.undo)
        if fault.kind == "read-only-bits":
            return Broken(what="files", count=len(found.modes))
        if fault.kind == "files-deleted":
            return Broken(what="files", count=len(found.files))
        return Broken(what="replicas", count=found.replicas)


def _walk(path: Path) -> Iterator[tuple[Path, int]]:
    """Yield files and directories below, each directory before its content; no links."""
    for entry in sorted(path.iterdir()):
        try:
            mode = entry.lstat().st_mode
            if stat.S_ISLNK(mode):
                continue
            yield entry, stat.S_IMODE(mode)
            if stat.S_ISDIR(mode):
                yield from _walk(entry)
        except FileNotFoundError:
            continue  # The broker goes on working, and removed it in between.


def _take_write_bits(path: Path, known: dict[str, int], record: RecordUndo) -> None:
    """Work from the top down: once a directory is read-only, its entries stay the same."""
    path.chmod(known["."] & ~WRITE_BITS)
    for entry, mode in _walk(path):
        name = str(entry.relative_to(path))
        if known.get(name) != mode:
            record({"modes": {name: mode}})
        with contextlib.suppress(FileNotFoundError):
            entry.chmod(mode & ~WRITE_BITS)


def _restore_modes(path: Path, modes: dict[str, int]) -> None:
    # The directory comes first: while it has no permissions, nothing below can be reached.
    for name in sorted(modes, key=lambda name: (name != ".", name)):
        with contextlib.suppress(FileNotFoundError):
            (path / name).chmod(modes[name])


def _why_files_are_there(path: Path, names: list[str]) -> str:
    if not names:
        return f"{path} has no such file"
    again = [name for name in names if (path / name).exists()]
    return f"{again[0]} was made again in {path}" if again else ""


def _put_back(path: Path, known: Undo) -> str:
    """Bring files back where they are missing; returns a note about those that are not."""
    aside = Path(known.aside)
    for number, name in enumerate(known.files):
        # The broker may have made the file again, or have given up the replica it belongs to.
        with contextlib.suppress(FileExistsError, FileNotFoundError):
            (path / name).hardlink_to(aside / str(number))
            (aside / str(number)).unlink()
    with contextlib.suppress(FileNotFoundError):
        if any(aside.iterdir()):
            return f"what the broker replaced meanwhile is kept in {aside}"
        aside.rmdir()
    return ""


def aside_folder(path: Path) -> Path:
    """Return the nearest folder above on the same disk that is no log directory itself.

    A server refuses to start when it finds an unknown folder in a log directory.
    """
    device = path.stat().st_dev
    for folder in path.parents:
        if folder.stat().st_dev != device:
            break
        if not (folder / META_PROPERTIES).exists():
            return folder
    raise FaultError(f"cannot move {path}: its disk has no other folder")


def aside_of(path: Path, folder: Path, fault_id: int) -> str:
    """Return where a directory is moved to in a folder.

    Raises:
        FaultError: something has that name already.
    """
    aside = folder / f".{path.name}.jbod-fault-{fault_id}"
    if os.path.lexists(aside):
        raise FaultError(f"cannot move {path} to {aside}: it exists already")
    return str(aside)


def make_like(path: Path, other: Path) -> None:
    """Make an empty directory with owner and permissions of another one."""
    found = other.stat()
    path.mkdir()
    if os.geteuid() == 0:
        os.chown(path, found.st_uid, found.st_gid)
    path.chmod(stat.S_IMODE(found.st_mode))


def _write_marker(path: Path, known: Undo) -> None:
    found = Path(known.aside).stat()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        if os.geteuid() == 0:
            os.fchown(fd, found.st_uid, found.st_gid)
        os.write(fd, known.marker.encode())
        os.fsync(fd)
    finally:
        os.close(fd)


def move_back(fault: Fault, known: Undo) -> str:
    """Bring a directory back that was moved aside; returns a note about what was in its place."""
    aside = Path(known.aside)
    if inode(aside) != known.inode:
        if inode(fault.path) == known.inode:
            return ""
        return f"{fault.path} was removed, and so was {aside}, where it had been moved"
    kept: list[str] = []
    for _ in range(_ATTEMPTS_MAX):
        _clear_place(fault, known, kept)
        try:
            aside.rename(fault.path)
        except OSError as error:
            # Somebody was faster and put something there again.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            continue
        return f"what was written meanwhile is kept in {', '.join(kept)}" if kept else ""
    raise FaultError(
        f"another program keeps writing to {fault.path}; the directory is still in {aside}"
    )


def _clear_place(fault: Fault, known: Undo, kept: list[str]) -> None:
    """Make room at the path; what is not ours is moved aside and never removed."""
    if not os.path.lexists(fault.path) or _is_own_marker(fault.path, known):
        fault.path.unlink(missing_ok=True)
        return
    with contextlib.suppress(OSError):
        fault.path.rmdir()  # Only an empty directory lets itself be removed.
        return
    folder = Path(known.aside).parent
    number = len(kept)
    while True:
        target = folder / f".{fault.path.name}.jbod-kept-{fault.fault_id}-{number}"
        if not os.path.lexists(target):
            break
        number += 1
    fault.path.rename(target)
    kept.append(str(target))


def _is_own_marker(path: Path, known: Undo) -> bool:
    if not known.marker or path.is_symlink() or not path.is_file():
        return False
    # A marker may be torn when the injection was interrupted, even empty.
    expected = known.marker.encode()
    with path.open("rb") as file:
        return expected.startswith(file.read(len(expected) + 1))


def replicas_in(path: Path) -> int:
    """Return how many replicas lie in a log directory."""
    return sum("-" in entry.name and entry.is_dir() for entry in path.iterdir())


def inode(path: Path) -> int | None:
    """Return the inode number at a path; None where nothing is."""
    try:
        return path.lstat().st_ino
    except (FileNotFoundError, NotADirectoryError):
        return None

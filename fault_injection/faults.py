"""The kinds of fault: how each is prepared, made and undone.

    chmod000   the directory keeps its place and loses all permissions
    readonly   chmod -R a-w: nothing below can be written, all can be read
    file       the directory is moved aside, a regular file takes its place
    delete     the directory is moved aside, nothing takes its place

`prepare` only looks and returns what the undoing will need; it is in the journal before `make`
touches anything. `undo` looks at what is there and does what is missing, so it can be run after an
interruption at any point of `make` or of an earlier `undo`, and twice. A directory that is moved
aside stays on its disk and keeps its inode; what was written to its path meanwhile is kept too.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from fault_injection.journal import Fault, FaultError, Undo

KINDS = ("chmod000", "readonly", "file", "delete")

WRITE_BITS = 0o222
META_PROPERTIES = "meta.properties"
_ATTEMPTS_MAX = 10
"""How often `undo` clears a path that somebody keeps filling again."""


def prepare(kind: str, path: Path, fault_id: int) -> Undo:
    """Return what is needed to undo a fault at `path`, changing nothing.

    Raises:
        FaultError: this kind cannot be made here.
    """
    found = path.stat()
    modes = {".": stat.S_IMODE(found.st_mode)}
    if kind == "chmod000":
        return Undo(inode=found.st_ino, modes=modes)
    if kind == "readonly":
        return Undo(inode=found.st_ino, modes={**modes, **_modes_below(path)})
    if path.is_mount():
        raise FaultError(
            f"{path} is a mount point, which can be neither renamed nor deleted; give a folder "
            "inside of it"
        )
    aside = _aside_folder(path) / f".{path.name}.jbod-fault-{fault_id}"
    if os.path.lexists(aside):
        raise FaultError(f"{aside}, where {path} would be moved, is there already")
    marker = f"put here by jbod-fault {fault_id}\n" if kind == "file" else ""
    return Undo(inode=found.st_ino, modes=modes, aside=str(aside), marker=marker)


def make(fault: Fault, found_more: Callable[[dict[str, int]], None]) -> None:
    """Break the directory.

    Args:
        fault: What to do; its `begin` line is written.
        found_more: Told of permissions that `prepare` had not seen, before they are changed.

    Raises:
        OSError: a call failed; `undo` restores what was done until then.
    """
    match fault.kind:
        case "chmod000":
            fault.path.chmod(0)
        case "readonly":
            _take_write_bits(fault.path, fault.undo.modes, found_more)
        case _:
            Path(fault.undo.aside).parent.stat()
            fault.path.rename(fault.undo.aside)
            if fault.undo.marker:
                _write_marker(fault)


def undo(fault: Fault) -> str:
    """Bring the directory back as it was.

    Returns:
        A note where there is something to tell, else an empty text.

    Raises:
        OSError: a call failed; `undo` may be run again.
        FaultError: somebody keeps putting something in the directory's place.
    """
    if fault.undo.aside:
        return _move_back(fault)
    if _inode(fault.path) != fault.undo.inode:
        shown = f"{fault.undo.modes['.']:04o}"
        return f"{fault.path} is gone or another directory now, its mode had been {shown}"
    _restore_modes(fault.path, fault.undo.modes)
    return ""


def _modes_below(path: Path) -> dict[str, int]:
    return {str(entry.relative_to(path)): mode for entry, mode in _walk(path)}


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


def _take_write_bits(
    path: Path, known: dict[str, int], found_more: Callable[[dict[str, int]], None]
) -> None:
    """Work from the top down: once a directory is read-only, its entries stay the same."""
    path.chmod(known["."] & ~WRITE_BITS)
    for entry, mode in _walk(path):
        name = str(entry.relative_to(path))
        if known.get(name) != mode:
            found_more({name: mode})
        with contextlib.suppress(FileNotFoundError):
            entry.chmod(mode & ~WRITE_BITS)


def _restore_modes(path: Path, modes: dict[str, int]) -> None:
    # The directory comes first: while it has no permissions, nothing below can be reached.
    for name in sorted(modes, key=lambda name: (name != ".", name)):
        with contextlib.suppress(FileNotFoundError):
            (path / name).chmod(modes[name])


def _aside_folder(path: Path) -> Path:
    """Return the nearest folder above on the same disk that is no log directory itself.

    A server refuses to start when it finds an unknown folder in a log directory.
    """
    device = path.stat().st_dev
    for folder in path.parents:
        if folder.stat().st_dev != device:
            break
        if not (folder / META_PROPERTIES).exists():
            return folder
    raise FaultError(f"there is no folder on the same disk to move {path} to")


def _write_marker(fault: Fault) -> None:
    found = Path(fault.undo.aside).stat()
    fd = os.open(fault.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        if os.geteuid() == 0:
            os.fchown(fd, found.st_uid, found.st_gid)
        os.write(fd, fault.undo.marker.encode())
        os.fsync(fd)
    finally:
        os.close(fd)


def _move_back(fault: Fault) -> str:
    aside = Path(fault.undo.aside)
    if _inode(aside) != fault.undo.inode:
        if _inode(fault.path) == fault.undo.inode:
            return ""
        return f"{fault.path} is gone, and so is {aside}, where it had been moved"
    kept: list[str] = []
    for _ in range(_ATTEMPTS_MAX):
        _clear_place(fault, kept)
        try:
            aside.rename(fault.path)
        except OSError as error:
            # Somebody was faster and put something there again.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            continue
        return f"what was written meanwhile is kept in {', '.join(kept)}" if kept else ""
    raise FaultError(f"somebody keeps writing to {fault.path}; the directory is still in {aside}")


def _clear_place(fault: Fault, kept: list[str]) -> None:
    """Make room at the path; what is not ours is moved aside and never removed."""
    if not os.path.lexists(fault.path) or _is_own_marker(fault):
        fault.path.unlink(missing_ok=True)
        return
    with contextlib.suppress(OSError):
        fault.path.rmdir()  # Only an empty directory lets itself be removed.
        return
    folder = Path(fault.undo.aside).parent
    number = len(kept)
    while True:
        target = folder / f".{fault.path.name}.jbod-kept-{fault.fault_id}-{number}"
        if not os.path.lexists(target):
            break
        number += 1
    fault.path.rename(target)
    kept.append(str(target))


def _is_own_marker(fault: Fault) -> bool:
    if not fault.undo.marker or fault.path.is_symlink() or not fault.path.is_file():
        return False
    # A marker may be torn when the injection was interrupted, even empty.
    expected = fault.undo.marker.encode()
    with fault.path.open("rb") as file:
        return expected.startswith(file.read(len(expected) + 1))


def _inode(path: Path) -> int | None:
    try:
        return path.lstat().st_ino
    except (FileNotFoundError, NotADirectoryError):
        return None

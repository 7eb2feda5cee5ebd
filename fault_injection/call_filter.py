"""Which system calls are handed over to a supervisor, and the filter that does so, on x86-64."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from fault_injection.preload.rules import CallClass

_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_NOTIFY, _ALLOW = 0x7FC00000, 0x7FFF0000
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_X86_64 = 0xC000003E
_CREATING = 0o100 | 0o1000
"""O_CREAT and O_TRUNC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One system call.

    Attributes:
        classes: What it is; for opening, what it may be.
        ends: The files that it is about: number of the argument with a handle and of the one with
            a path; without a path the handle is the file, without a handle the path is relative to
            the current folder.
        flags: Number of the argument with the flags of opening; None for other calls.
    """

    classes: CallClass
    ends: tuple[tuple[int | None, int | None], ...]
    flags: int | None = None


_HANDLE = ((0, None),)
_PATH = ((None, 0),)
_PATH_AT = ((0, 1),)
_OPEN = CallClass.CREATE | CallClass.TRUNCATE

CALLS: Mapping[int, Call] = MappingProxyType(
    {
        2: Call(classes=_OPEN, ends=_PATH, flags=1),  # open
        257: Call(classes=_OPEN, ends=_PATH_AT, flags=2),  # openat
        83: Call(classes=CallClass.CREATE, ends=_PATH),  # mkdir
        258: Call(classes=CallClass.CREATE, ends=_PATH_AT),  # mkdirat
        86: Call(classes=CallClass.CREATE, ends=((None, 1),)),  # link
        265: Call(classes=CallClass.CREATE, ends=((2, 3),)),  # linkat
        88: Call(classes=CallClass.CREATE, ends=((None, 1),)),  # symlink
        266: Call(classes=CallClass.CREATE, ends=((1, 2),)),  # symlinkat
        74: Call(classes=CallClass.SYNC, ends=_HANDLE),  # fsync
        75: Call(classes=CallClass.SYNC, ends=_HANDLE),  # fdatasync
        277: Call(classes=CallClass.SYNC, ends=_HANDLE),  # sync_file_range
        306: Call(classes=CallClass.SYNC, ends=_HANDLE),  # syncfs
        76: Call(classes=CallClass.TRUNCATE, ends=_PATH),  # truncate
        77: Call(classes=CallClass.TRUNCATE, ends=_HANDLE),  # ftruncate
        82: Call(classes=CallClass.RENAME, ends=((None, 0), (None, 1))),  # rename
        264: Call(classes=CallClass.RENAME, ends=((0, 1), (2, 3))),  # renameat
        316: Call(classes=CallClass.RENAME, ends=((0, 1), (2, 3))),  # renameat2
        84: Call(classes=CallClass.REMOVE, ends=_PATH),  # rmdir
        87: Call(classes=CallClass.REMOVE, ends=_PATH),  # unlink
        263: Call(classes=CallClass.REMOVE, ends=_PATH_AT),  # unlinkat
        1: Call(classes=CallClass.WRITE, ends=_HANDLE),  # write
        18: Call(classes=CallClass.WRITE, ends=_HANDLE),  # pwrite64
        20: Call(classes=CallClass.WRITE, ends=_HANDLE),  # writev
        285: Call(classes=CallClass.WRITE, ends=_HANDLE),  # fallocate
        296: Call(classes=CallClass.WRITE, ends=_HANDLE),  # pwritev
        328: Call(classes=CallClass.WRITE, ends=_HANDLE),  # pwritev2
    }
)
"""By their numbers."""


def program(classes: CallClass) -> bytes:
    """Return the filter that hands over the calls of these classes, as the kernel reads it."""
    chosen = {number: call for number, call in CALLS.items() if call.classes & classes}
    opening = {number: call for number, call in chosen.items() if call.flags is not None}
    lines = [
        _line(_LOAD, _ARCHITECTURE_AT),
        _line(_EQUAL, _X86_64, if_true=1),
        _line(_RETURN, _ALLOW),
        _line(_LOAD, _NUMBER_AT),
    ]
    for number in chosen.keys() - opening.keys():
        lines += [_line(_EQUAL, number, if_false=1), _line(_RETURN, _NOTIFY)]
    for number, call in opening.items():
        assert call.flags is not None
        lines += [
            _line(_EQUAL, number, if_false=4),
            _line(_LOAD, _ARGUMENTS_AT + 8 * call.flags),
            _line(_ANY_BIT, _CREATING, if_false=1),
            _line(_RETURN, _NOTIFY),
            _line(_RETURN, _ALLOW),
        ]
    return b"".join([*lines, _line(_RETURN, _ALLOW)])


def _line(code: int, value: int, *, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)

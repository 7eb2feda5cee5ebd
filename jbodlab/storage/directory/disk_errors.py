"""Which `OSError` takes a log directory offline, and which is the process's own fault.

As a rule, any I/O error of a directory counts. The exceptions are errors that would affect all
directories alike, such as no free file descriptor or no memory: otherwise one fault of the process
would take all its disks offline. A full disk need not go offline either: check `is_no_space` first.
"""

from __future__ import annotations

import errno

NO_DESCRIPTOR = frozenset(
    {
        errno.EMFILE,  # this process has too many open files
        errno.ENFILE,  # the machine has
    }
)

SHORTAGES = NO_DESCRIPTOR | {errno.ENOMEM}

PROCESS_FAULTS = SHORTAGES | frozenset(
    {
        errno.EINTR,
        errno.EAGAIN,
        errno.EBADF,  # a file used after it was closed
        errno.EFAULT,
        errno.EINVAL,
        errno.ENAMETOOLONG,  # a name that this process made up
    }
)


NO_SPACE = frozenset(
    {
        errno.ENOSPC,  # no blocks, or no inodes
        errno.EDQUOT,  # a quota of either
    }
)


class OutOfRoomError(OSError):
    """The disk had no room in the middle of instructions for the files of a log.

    Or the process had no descriptor or memory for the next instruction, see `is_shortage`.

    Attributes:
        carried_out: How many instructions are complete. The next one may be incomplete; it must be
            carried out again.
    """

    def __init__(self, error: OSError, carried_out: int) -> None:
        super().__init__(error.errno, error.strerror, error.filename)
        self.carried_out = carried_out


def is_no_space(error: OSError) -> bool:
    """Return whether the disk had no room; the data on the disk is still intact."""
    return error.errno in NO_SPACE


def is_no_descriptor(error: OSError) -> bool:
    """Return whether a file could not be opened as too many are open."""
    return error.errno in NO_DESCRIPTOR


def is_shortage(error: BaseException) -> bool:
    """Return whether the process lacked descriptors or memory, which is not a disk failure."""
    return isinstance(error, MemoryError) or (
        isinstance(error, OSError) and error.errno in SHORTAGES
    )


def as_os_error(error: OSError | MemoryError) -> OSError:
    """Return a MemoryError as an OSError with ENOMEM, and an OSError unchanged."""
    if isinstance(error, OSError):
        return error
    return OSError(errno.ENOMEM, "Cannot allocate memory")


def is_directory_failure(error: OSError) -> bool:
    """Return whether the directory of the failed call must be taken offline."""
    return error.errno not in PROCESS_FAULTS


def describe(error: OSError) -> str:
    """Return one line for the log: number, text and file where the error names them."""
    return str(error) or type(error).__name__

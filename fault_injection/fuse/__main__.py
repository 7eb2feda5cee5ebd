"""The process that serves one disk, until it is unmounted or asked to end.

    python -m fault_injection.fuse POINT RULES

POINT is the folder that it lies over, RULES the file of rules, which is made here and removed at
the end. SIGTERM answers everything that hangs and unmounts the disk; it ends with its last user.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fault_injection.errors import FaultError
from fault_injection.fuse import disk, machine
from fault_injection.fuse.passing import CALLS, PassingDisk
from fault_injection.preload.control import Control
from fault_injection.preload.judge import Judge

THREADS_MAX = 512
"""As many calls may hang at a time before all others wait for them."""
_LIMITS_THREADS = 12
"""The minor version of libfuse 3 from which on it can be told so; others know no limit."""
_ENDING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}


def main(arguments: Sequence[str]) -> int:
    """Mount the disk and serve it; returns the exit code."""
    point, file = Path(os.path.realpath(arguments[0])), Path(arguments[1])
    if reason := machine.refusal():
        print(reason, file=sys.stderr)
        return 1
    try:
        controls = [Control.create(file), Control.create(disk.proofs_of(file))]
    except FaultError as error:
        print(error, file=sys.stderr)
        return 1
    try:
        _serve(point, controls)
    except OSError as error:
        print(f"{point} cannot be served: {error}", file=sys.stderr)
        return 1
    except RuntimeError:
        # libfuse has said why.
        return 1
    finally:
        disk.remove_rules(file)
    return 0


def _serve(point: Path, controls: Sequence[Control]) -> None:
    """Serve until the last user has left."""
    # Of two that are installed, only the newer one knows what is asked for here.
    os.environ["FUSE_LIBRARY_NAME"] = machine.LIBRARY
    import mfusepy

    class Mounted(mfusepy.FUSE):  # type: ignore[misc] # nothing is known of its types
        def rename_fuse_3(self, old: bytes, new: bytes, flags: int) -> Any:
            """Refuse what the library would leave out, such as to exchange two files."""
            return -errno.EINVAL if flags else super().rename_fuse_3(old, new, flags) or 0

    options: dict[str, object] = {"default_permissions": True, "subtype": disk.SUBTYPE}
    if os.geteuid() == 0:
        options["allow_other"] = True
    if mfusepy.fuse_version_minor >= _LIMITS_THREADS:
        options["max_threads"] = THREADS_MAX
    for control in controls:
        control.traps(CALLS)
    folder = os.open(point, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    os.umask(0)
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    threading.Thread(target=_end_when_asked, args=(point, controls), daemon=True).start()
    Mounted(
        PassingDisk(
            f"/proc/self/fd/{folder}",
            str(point),
            judge=Judge(controls[0]),
            proofs=Judge(controls[1]),
            caller=mfusepy.fuse_get_context,
        ),
        str(point),
        foreground=True,
        # As libfuse reads a value among others.
        fsname=str(controls[0].path).replace("\\", "\\\\").replace(",", "\\,"),
        **options,
    )


def _end_when_asked(point: Path, controls: Sequence[Control]) -> None:
    while True:
        signal.sigwait(_ENDING)
        for control in controls:
            control.clear()
        with suppress(FaultError):
            disk.detach(point)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

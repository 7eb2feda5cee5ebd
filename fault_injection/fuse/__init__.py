"""Faults below the calls of everybody: a log directory lies on a disk that we serve.

The disk is a file system in user space, mounted over a folder whose files it hands through; each of
its calls goes on, waits or fails as a file of rules says, like that of the preloaded library. It
has to be there before the broker starts. Afterwards nothing escapes it, mapped files included,
whatever program the broker is and however it was started.

    machine.py    whether this machine can do that
    disk.py       mounting and unmounting, as whoever wants such a disk sees it
    __main__.py   the process that serves one disk
"""

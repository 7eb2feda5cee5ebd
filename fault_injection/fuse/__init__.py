"""Faults below the calls of everybody: a log directory lies on a disk that we serve.

The disk is a file system in user space, mounted over a folder whose files it hands through; each of
its calls goes on, waits or fails as a file of rules says, the same that the preloaded library and
the supervisor follow. It has to be there before the broker starts. Afterwards nothing escapes it,
mapped files included, whatever program the broker is and however it was started.

    machine.py    whether this machine can do that
    disk.py       mounting and unmounting, as whoever wants such a disk sees it
    __main__.py   the process that serves one disk
"""

"""Faults below a system call, for processes that were started with `Control.environment()`.

A preloaded library delays, fails or hangs chosen file system calls below chosen directories, on
handles that are open already as on new ones, without root:

    control = Control.create(path)
    broker = start(..., env={**os.environ, **control.environment()})
    counter = control.impose(Rule(directory=log_dir, calls=CallClass.SYNC, delay_ms=40))
    ...
    control.clear()
"""

from fault_injection.preload.control import Control
from fault_injection.preload.rules import CallClass, Counters, Rule

__all__ = ["CallClass", "Control", "Counters", "Rule"]

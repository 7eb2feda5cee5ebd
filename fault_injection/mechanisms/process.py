"""Faults of a broker's process: killed, stopped, restarted."""

from __future__ import annotations

from typing import Any

from fault_injection import process_control
from fault_injection.journal import Fault
from fault_injection.kinds import FaultSpec
from fault_injection.mechanism import Broken, Healing, RecordUndo, Start, Target


class ProcessFaults:
    """The mechanism `process`."""

    def refusal(self, spec: FaultSpec, target: Target) -> str:
        assert target.broker is not None
        return process_control.refusal(target.broker, must_run=True)

    def prepare(self, spec: FaultSpec, target: Target, fault_id: int) -> dict[str, Any]:
        assert target.broker is not None
        return process_control.planned(target.broker)

    def make(self, fault: Fault, record: RecordUndo, start: Start) -> int:
        struck_ns = process_control.end(fault, cleanly=fault.kind != "kill")
        if fault.kind == "restart":
            start(fault)
        return struck_ns

    def verify(self, fault: Fault) -> str:
        """Look whether the process is gone, and for `restart` whether there is another one."""
        if process_control.is_struck_alive(fault):
            return f"{fault.broker} still runs"
        if fault.kind == "restart" and not process_control.runs_again(fault):
            return f"{fault.broker} does not run again"
        return ""

    def undo(self, fault: Fault, start: Start) -> Healing:
        if process_control.running(fault) is None:
            start(fault)
        return Healing()

    def broken(self, fault: Fault) -> Broken:
        return Broken(
            what="processes", count=1, first_ns=fault.injected_ns, last_ns=fault.injected_ns
        )

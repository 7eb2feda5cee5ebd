"""Which mechanism makes a wanted fault on this machine, for this broker."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fault_injection.errors import FaultError
from fault_injection.kinds import KINDS, FaultSpec, Scope
from fault_injection.mechanism import Mechanism, Target
from fault_injection.mechanisms.administrator import Administrator
from fault_injection.mechanisms.balloon import Balloon
from fault_injection.mechanisms.certificates import Certificates
from fault_injection.mechanisms.connections import Connections
from fault_injection.mechanisms.directories import Directories
from fault_injection.mechanisms.file_operations import FileOperations
from fault_injection.mechanisms.followers import OnFuseDisk, Preloaded
from fault_injection.mechanisms.loop_disk import LoopDisk
from fault_injection.mechanisms.packets import Packets
from fault_injection.mechanisms.process import ProcessFaults
from fault_injection.mechanisms.rules_for_calls import RulesForCalls

MECHANISMS: Mapping[str, Mechanism] = MappingProxyType(
    {
        "files": FileOperations(),
        "preload": RulesForCalls(Preloaded()),
        "fuse": RulesForCalls(OnFuseDisk()),
        "balloon": Balloon(),
        "loop": LoopDisk(),
        "directories": Directories(),
        "process": ProcessFaults(),
        "connections": Connections(),
        "packets": Packets(),
        "certificates": Certificates(),
        "administrator": Administrator(),
    }
)


def choose(spec: FaultSpec, target: Target) -> str:
    """Return the name of the first mechanism that can make a fault.

    Raises:
        FaultError: none can, with the reason of each.
    """
    kind = KINDS[spec.kind]
    if kind.scope is Scope.DIRECTORY and target.directory is None:
        raise FaultError(f"{spec.kind} is a fault of a log directory: name one")
    if kind.scope is Scope.CLUSTER and (target.broker is not None or target.directory is not None):
        raise FaultError(f"{spec.kind} is a fault of a whole cluster: name none of its parts")
    if kind.scope in (Scope.BROKER, Scope.EITHER) and target.broker is None:
        raise FaultError(f"{spec.kind} is a fault of a broker: name one")
    if kind.scope is Scope.BROKER and target.directory is not None:
        raise FaultError(
            f"{spec.kind} is a fault of a broker, got the directory {target.directory}"
        )
    names = (spec.mechanism,) if spec.mechanism else kind.mechanisms
    reasons: list[str] = []
    for name in names:
        mechanism = MECHANISMS.get(name)
        reason = mechanism.refusal(spec, target) if mechanism else "not available here"
        if not reason:
            return name
        reasons.append(reason if len(names) == 1 else f"{name}: {reason}")
    raise FaultError("; ".join(reasons))


def check(spec: FaultSpec, target: Target) -> str:
    """Return why a fault cannot be made there, as one sentence; empty if it can."""
    try:
        choose(spec, target)
    except FaultError as error:
        return str(error)
    return ""

"""The plan that a command of the lab runs."""

from __future__ import annotations

from fault_injection.kinds import spec
from lab.commands import running
from lab.plan.plan import At, End, Entry, Exit, ForegroundCommand, Plan, Topic, Writers

PLAN = Plan(
    name="run",
    topics=(Topic(name="orders", partitions=2, replicas=1),),
    load=(
        Writers(name="producer", topic="orders", rate=10),
        ForegroundCommand(name=running.APP, command=("x",)),
    ),
    end=End(instant=Exit(name=running.APP)),
    objectives=running.objectives(),
    timeline=(
        Entry(name="fault", do="permission", instant=At(seconds=3), spec=spec("permission", {})),
    ),
)

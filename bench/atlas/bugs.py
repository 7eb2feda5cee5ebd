"""Known bugs of Apache Kafka with disks, and the plans that exercise the same place."""

from __future__ import annotations

from dataclasses import dataclass

RACE = "A race that no plan forces; the plan exercises the place, and PASS proves nothing."
NO_PLAN = "No plan reaches it."


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug.

    Attributes:
        number: Number in Kafka's tracker.
        what: What happens, as a sentence.
        mended: A release whose classes have the correction; empty where that was not looked up.
        plan: Shipped plan that exercises the place; empty where there is none.
        why: Why no run shows it; empty where runs do.
    """

    number: str
    what: str
    mended: str = ""
    plan: str = ""
    why: str = ""


BUGS = (
    Bug(
        "KAFKA-16157",
        "A topic that is made again while a disk is offline is taken for the deleted one.",
        why=f"{NO_PLAN} It takes a topic that is deleted and made again while a disk is broken.",
    ),
    Bug(
        "KAFKA-16234",
        "A replica of a failed directory is made again in another directory.",
        mended="3.7.2 or before",
        plan="kip112-bounce-with-dead-disk",
        why="No release that has it was run.",
    ),
    Bug(
        "KAFKA-16297",
        "A move between directories ends while its assignment changes once more.",
        mended="3.7.2 or before",
        plan="kip113-move-between-disks",
        why=RACE,
    ),
    Bug(
        "KAFKA-16365",
        "A move between directories misses the answer of the controller, or takes it too early.",
        plan="kip113-move-between-disks",
        why=RACE,
    ),
    Bug(
        "KAFKA-16606",
        "Several directories are accepted at a metadata version that does not know them.",
        why=f"{NO_PLAN} A plan cannot choose the metadata version.",
    ),
    Bug(
        "KAFKA-16886",
        "A broker goes on reporting the directory of a replica that a reassignment took away.",
        plan="kip113-move-between-brokers-and-disks",
        why=RACE,
    ),
)

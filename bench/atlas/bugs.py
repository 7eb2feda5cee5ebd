"""Known bugs of Apache Kafka with disks, and the plans that show them or exercise the place."""

from __future__ import annotations

from dataclasses import dataclass

RACE = "A race that no plan forces; the plan exercises the place, and PASS proves nothing."
NO_PLAN = "No plan reaches it."
BEFORE = "Fixed before the first release that knows directories in its metadata was out."


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug.

    Attributes:
        number: Number in Kafka's tracker.
        what: What happens, as a sentence.
        found: Releases that have it; empty where that was not looked up.
        fixed: The first release that was looked at and does not have it; empty where that was not
            looked up.
        plan: Shipped plan that shows it, or exercises the place; empty where there is none.
        why: Why no run shows it; empty where runs do.
    """

    number: str
    what: str
    found: str = ""
    fixed: str = ""
    plan: str = ""
    why: str = ""


BUGS = (
    Bug(
        "KAFKA-15572",
        "A move renames the folder of a segment during a sync, and the disk counts as dead.",
        fixed="3.7.0 or before",
        why=BEFORE,
    ),
    Bug(
        "KAFKA-15649",
        "A broker that cannot report a dead disk goes on for ever instead of ending.",
        why=f"{NO_PLAN} No metric of a plan tells a broker that ended from one that is cut off.",
    ),
    Bug(
        "KAFKA-16082",
        "A move that a crash interrupted goes on in the directory that has the replica already.",
        fixed="3.7.0 or before",
        plan="kip113-move-and-disk-dies",
        why=BEFORE,
    ),
    Bug(
        "KAFKA-16157",
        "A topic that is made again while a disk is offline is mistaken for the deleted one.",
        fixed="3.7.0 or before",
        why=f"{BEFORE} Its correction made KAFKA-16234.",
    ),
    Bug(
        "KAFKA-16234",
        "A replica of a failed directory is made again in another directory.",
        found="3.7.0",
        fixed="3.7.2 or before",
        plan="kafka-16234",
    ),
    Bug(
        "KAFKA-16297",
        "A move between directories ends while its assignment changes once more.",
        found="3.7.0",
        fixed="3.7.2 or before",
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
        found="3.7.0",
        fixed="3.7.2 or before",
        plan="kafka-16606",
    ),
    Bug(
        "KAFKA-16814",
        "A broker does not start where the file with the id of a topic is missing.",
        why=f"{NO_PLAN} A fault breaks calls, and none takes a single file away.",
    ),
    Bug(
        "KAFKA-16886",
        "A broker goes on reporting the directory of a replica that a reassignment took away.",
        plan="kip113-move-between-brokers-and-disks",
        why=RACE,
    ),
    Bug(
        "KAFKA-17310",
        "A broker ends at its start where it cannot lock one of its directories.",
        plan="kafka-17310",
        why="A broker of 3.8.1 started; no release that ends is known.",
    ),
    Bug(
        "KAFKA-19571",
        "A segment is deleted before its sync, and the disk counts as dead.",
        plan="kafka-19571",
        why=RACE,
    ),
)

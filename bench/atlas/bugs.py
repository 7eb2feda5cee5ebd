"""Known bugs of Apache Kafka with disks, and the plans that show them or exercise the place.

Versions with a bug and with its fix were seen in runs, or looked up in the code of the releases.
"""

from __future__ import annotations

from dataclasses import dataclass

RACE = "A race that no plan forces; the plan exercises the place, and PASS proves nothing."
BEFORE = "Fixed before the first release that knows directories in its metadata was out."


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug.

    Attributes:
        number: Number in Kafka's tracker; empty for what was measured and has none that we found.
        what: The behaviour, as a sentence.
        found: Releases that have it; empty where that was not looked up.
        fixed: The first release that was looked at and does not have it; empty where that was not
            looked up.
        plan: Shipped plan that shows it, or exercises the place; empty where there is none.
        why: Why no run shows it; empty where runs do.
        refusal: Text of releases that fixed it when they refuse the plan.
    """

    number: str
    what: str
    found: str = ""
    fixed: str = ""
    plan: str = ""
    why: str = ""
    refusal: str = ""

    @property
    def engines(self) -> tuple[str, ...]:
        """Engines whose runs show the bug, and that it is fixed; none where no run shows it."""
        releases = () if self.why else (self.found, self.fixed.split(" ")[0])
        return tuple(f"kafka:{release}" for release in releases if release)


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
        found="3.7.2",
        fixed="3.8.1 or before",
        plan="kafka-15649",
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
        "KAFKA-16424",
        "Files of segments that a truncation removed during a move stay on the disk.",
        why="No metric of a plan counts files, and the broker goes on as if nothing were wrong.",
    ),
    Bug(
        "KAFKA-16583",
        "After a reassignment at a metadata version without directories, no snapshot is written.",
        why="What fails is the snapshot of the metadata; no metric of a plan counts snapshots.",
    ),
    Bug(
        "KAFKA-16606",
        "Several directories are accepted at a metadata version that does not know them.",
        found="3.7.0",
        fixed="3.7.2 or before",
        plan="kafka-16606",
        refusal="Multiple log directories (aka JBOD) are not supported",
    ),
    Bug(
        "KAFKA-16709",
        "Retention stops for a replica that moves between disks while its leader changes.",
        found="3.7.2",
        fixed="3.8.1 or before",
        plan="kafka-16709",
    ),
    Bug(
        "KAFKA-16814",
        "A broker does not start where the file with the id of a topic is missing.",
        found="3.7.0",
        fixed="3.7.2 or before",
        plan="kafka-16814",
    ),
    Bug(
        "KAFKA-16886",
        "A broker goes on reporting the directory of a replica that a reassignment took away.",
        plan="kip113-move-between-brokers-and-disks",
        why=RACE,
    ),
    Bug(
        "KAFKA-17190",
        "A broker goes on reporting the directories of a topic that was deleted.",
        why="The topic has to be deleted in the milliseconds before the report; what follows are "
        "reports that are repeated, which no metric of a plan sees.",
    ),
    Bug(
        "KAFKA-17310",
        "A broker ends at its start where it cannot lock one of its directories.",
        why="A broker of 3.8.1 started with a lock file that could neither be opened nor created; "
        "what else makes it end was not found.",
    ),
    Bug(
        "KAFKA-19221",
        "A stop that cannot cut time indexes to their size counts as clean; the next start reads "
        "time 0 in them, and retention deletes new segments.",
        found="4.0.0",
        fixed="4.1.1 or before",
        plan="kafka-19221",
    ),
    Bug(
        "KAFKA-19458",
        "Retention stops for a replica whose move between disks was sent elsewhere on the way.",
        found="4.1.1",
        fixed="4.2.1 or before",
        plan="kafka-19458",
    ),
    Bug(
        "KAFKA-19571",
        "A segment is deleted before its sync, and the disk counts as dead.",
        why="A race that no plan forces: a run on 4.1.0 with slow syncs and a replica that left "
        "did not meet it.",
    ),
    Bug(
        "",
        "A produce request that waits for followers when the leader's disk dies is answered after "
        "its timeout, 30 s.",
        found="4.3.1",
        plan="kip112-disk-dies-while-serving",
    ),
    Bug(
        "",
        "The high watermark waits 30 s for a follower whose disk is dead.",
        found="4.3.1",
        plan="follower-disk-dies",
    ),
)

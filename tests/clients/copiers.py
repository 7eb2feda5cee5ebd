"""Programs of client libraries that consume, transform and produce in transactions.

A copier is called with bootstrap servers, the topics to read and to write, of four partitions each,
and a name: its transactional id and that of its group. It reads committed numbers from the
beginning, at most 20 for a transaction, and writes number n to partition n mod 4, as
`TRANSACTION:n`, with the consumed offsets in the same transaction. It aborts every fifth
transaction without need. It prints, one event a line,

    {"event": "began", "transaction": 7, "values": ["0", "3"]}       before anything is written
    {"event": "committed", "transaction": 7}                         when that was answered
    {"event": "aborted", "transaction": 7}                           likewise
    {"event": "error", "transaction": 7, "message": "..."}           what its library has told it

and reads again what it has not committed. It ends at the line `leave` on its standard input with
code 0. An error that its library takes for fatal ends it with another code.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence

from tests.clients.members import ProgramProcess
from tests.clients.programs import Program, go, java, node
from tests.kafka.jars import LINE_3, RELEASE

PARTITIONS = 4


def _python(library: str) -> Program:
    return Program(sources="python", tools=(), run=(sys.executable, "{built}/copier.py", library))


COPIERS = {
    **{name: _python(name) for name in ("librdkafka", "kafka-python", "aiokafka")},
    "java": java(RELEASE, main="Copier"),
    "java-3": java(LINE_3, main="Copier"),
    "franz-go": go("franzcopier"),
    "sarama": go("saramacopier"),
    "kafkajs": node("copier.js"),
}
"""By the name of the library."""


class CopierProcess(ProgramProcess):
    """A copier that runs.

    Attributes:
        began: The values of each transaction.
        ended: How transactions ended, as the library was told; of others it was told nothing.
        errors: Errors that came up meanwhile.
    """

    def __init__(self, command: Sequence[str], *arguments: str) -> None:
        self.began: dict[int, list[int]] = {}
        self.ended: dict[int, str] = {}
        self.errors: list[str] = []
        super().__init__(command, *arguments)

    def copied(self) -> set[int]:
        """All values of transactions whose commit was answered."""
        return {
            value
            for number, how in list(self.ended.items())
            if how == "committed"
            for value in self.began[number]
        }

    def commits(self) -> int:
        """How many commits were answered."""
        return sum(how == "committed" for how in list(self.ended.values()))

    def assert_once(self, found: Mapping[tuple[int, ...], Sequence[int]]) -> None:
        """Assert that transactions are there whole or not at all, as was told, and nothing twice.

        Args:
            found: Records that readers of committed records get, by transaction.
        """
        torn = {
            number: (sorted(values), self.began.get(number))
            for (number,), values in found.items()
            if sorted(values) != sorted(self.began.get(number, ()))
        }
        assert not torn, f"transactions seen in part, or twice: {torn}"
        for number, how in self.ended.items():
            there = (number,) in found
            assert there == (how == "committed"), f"{number} was {how}; it is there: {there}"
        places = defaultdict(list)
        for (number,), values in found.items():
            for value in values:
                places[value].append(number)
        twice = {value: numbers for value, numbers in places.items() if len(numbers) > 1}
        assert not twice, f"copied by more than one transaction: {twice}"

    def _account(self) -> str:
        return (
            f"{len(self.began)} transactions, the last {list(self.began.items())[-1:]}, "
            f"ended {list(self.ended.items())[-3:]}, errors {self.errors[-3:]}"
        )

    def _take(self, event: dict[str, object]) -> None:
        match event:
            case {"event": "began", "transaction": int(number), "values": list(values)}:
                self.began[number] = [int(value) for value in values]
            case {"event": "committed" | "aborted" as how, "transaction": int(number)}:
                assert self.ended.setdefault(number, how) == how
            case {"event": "error", "transaction": int(number), "message": str(message)}:
                self.errors.append(f"{number}: {message}")
            case _:
                raise AssertionError(f"no event of a copier: {event}")

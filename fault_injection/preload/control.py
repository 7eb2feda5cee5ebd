"""The control file of one or several brokers, and whoever sets their rules.

`impose` and `lift` change one rule and leave those of others: they lock the file and start from
what is in force then. If a writer dies, the rules stay in force, hangs until their end.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from fault_injection.errors import FaultError
from fault_injection.preload import build, rules
from fault_injection.preload.rules import ArmedRule, CallClass, Counters, Rule

RULES_VARIABLE = "JBODLAB_FAULT_RULES"

RESERVED_NS = 60_000_000_000
"""How long counters are kept for a rule that is still to be imposed."""


class Control:
    """Sets the rules for every process that was started with `environment()`.

    A rule counts for all calls that begin after `impose` has returned. A call that is held up is
    judged again whenever rules change: it is made at once if none of them holds it.
    """

    def __init__(self, path: Path, page: mmap.mmap) -> None:
        self.path = path
        self._page = page
        self._state = memoryview(page).cast("Q")
        self._in_force = rules.decode_bank(self._bank(self._generation))

    @classmethod
    def create(cls, path: Path, uid: int | None = None, gid: int | None = None) -> Control:
        """Make a control file without rules.

        Args:
            path: Where; its folder is one that the brokers' user can enter.
            uid: The brokers' user, who writes counters into it, and nobody else; None: this user.
            gid: The group of that user.

        Raises:
            FaultError: it cannot be made, or is there already.
        """
        with _opened(path, os.O_CREAT | os.O_EXCL, "make") as fd:
            os.write(fd, rules.MAGIC)
            os.ftruncate(fd, rules.FILE_SIZE)
            os.fchmod(fd, 0o600)
            if uid not in (None, os.geteuid()):
                os.fchown(fd, uid, -1 if gid is None else gid)
            return cls(path.resolve(), mmap.mmap(fd, rules.FILE_SIZE))

    @classmethod
    def open(cls, path: Path) -> Control:
        """Take over a control file and the rules in force.

        Raises:
            FaultError: it cannot be opened or is no control file.
        """
        with _opened(path, 0, "open") as fd:
            size = os.fstat(fd).st_size
            if size != rules.FILE_SIZE or os.pread(fd, 8, 0) != rules.MAGIC:
                raise FaultError(f"{path} is not a file of rules for the preloaded library")
            return cls(path.resolve(), mmap.mmap(fd, rules.FILE_SIZE))

    def close(self) -> None:
        """Give back the file; its rules stay in force."""
        self._state.release()
        self._page.close()

    def environment(self) -> dict[str, str]:
        """Return the variables to start a broker with; builds the library where needed.

        Raises:
            FaultError: the library cannot be built.
        """
        others = os.environ.get("LD_PRELOAD", "")
        preload = f"{build.library()}:{others}" if others else str(build.library())
        return {"LD_PRELOAD": preload, RULES_VARIABLE: str(self.path)}

    @property
    def attached(self) -> int:
        """How many processes ever loaded the library with this file, `setpriv` included."""
        return self._state[rules.ATTACHED_OFFSET // 8]

    def clear(self) -> None:
        """Heal: no call is broken any more, what is held up goes on. Counters can still be read."""
        self._publish([])

    def reserve_counter(self) -> int:
        """Return the number of counters for a rule that is imposed soon, by them.

        Nobody else is given them meanwhile; the reservation ends by itself after `RESERVED_NS`.
        """
        with self._locked():
            counter = self._free_counter()
            self._state[_reservation(counter)] = time.monotonic_ns() + RESERVED_NS
            return counter

    def impose(self, rule: Rule, counter: int | None = None, length_s: float | None = None) -> int:
        """Put one more rule in force, behind those of others.

        Args:
            rule: The rule to impose.
            counter: Number of its counters, from `reserve_counter`; None: chosen here.
            length_s: It ends by itself after so long.

        Returns:
            The number of its counters, by which it is lifted.

        Raises:
            FaultError: too many rules, counters in use, or a directory that cannot be broken.
        """
        with self._locked():
            if counter is None:
                counter = self._free_counter()
            if counter in {armed.counter for armed in self._in_force}:
                raise FaultError(f"somebody else has just taken the counters {counter}")
            start = rules.counter_offset(counter)
            self._page[start : start + rules.COUNTER_SIZE] = bytes(rules.COUNTER_SIZE)
            resolved = replace(rule, directory=Path(os.path.realpath(rule.directory)))
            armed = rules.arm(resolved, counter, time.monotonic_ns(), length_s)
            self._publish([*self._in_force, armed])
            return counter

    def lift(self, counter: int, rule: Rule | None = None) -> None:
        """Take one rule back and leave the others; harmless where it is not in force.

        Args:
            counter: Number of its counters.
            rule: Only if it is this one; another may have been given the counters since.
        """
        with self._locked():
            left = [
                armed
                for armed in self._in_force
                if armed.counter != counter or (rule is not None and armed.rule != rule)
            ]
            if left != self._in_force:
                self._publish(left)

    def counters_of(self, counter: int) -> Counters:
        """Return the counters with this number."""
        start = rules.counter_offset(counter)
        return rules.decode_counters(self._page[start : start + rules.COUNTER_SIZE])

    def write_counters(self, counter: int, counted: Counters) -> None:
        """Write counters down, for whoever carries the rules out."""
        start = rules.counter_offset(counter)
        data = rules.encode_counters(counted)
        self._page[start : start + len(data)] = data

    @property
    def state(self) -> int:
        """Generation and classes of the rules in force; every change of the rules changes it."""
        return self._state[rules.STATE_OFFSET // 8]

    @property
    def in_force(self) -> list[ArmedRule]:
        """All rules in force now, whoever set them."""
        return rules.decode_bank(self._bank(self._generation))

    @property
    def trapped(self) -> CallClass:
        """The classes of calls that are met at all."""
        return CallClass(self._state[rules.TRAPPED_OFFSET // 8] or CallClass.ALL)

    def traps(self, classes: CallClass) -> None:
        """Write down which classes of calls are met at all."""
        self._state[rules.TRAPPED_OFFSET // 8] = int(classes)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            self._in_force = self.in_force
            yield
        finally:
            os.close(fd)

    @property
    def _generation(self) -> int:
        return rules.generation_of(self.state)

    def _bank(self, generation: int) -> bytes:
        start = rules.bank_offset(generation)
        return self._page[start : start + rules.BANK_SIZE]

    def _publish(self, armed: list[ArmedRule]) -> None:
        generation = self._generation + 1
        start = rules.bank_offset(generation)
        self._page[start : start + rules.BANK_SIZE] = rules.encode_bank(armed)
        # One store of eight bytes, so that the brokers see the old rules or the new ones.
        self._state[rules.STATE_OFFSET // 8] = rules.encode_state(generation, armed)
        self._in_force = armed

    def _free_counter(self) -> int:
        """Return counters that nobody uses or has reserved; those used last come last."""
        taken = {armed.counter for armed in self._in_force}
        now_ns, first = time.monotonic_ns(), self._generation
        numbers = ((first + step) % rules.COUNTERS_MAX for step in range(rules.COUNTERS_MAX))
        for number in numbers:
            if number not in taken and self._state[_reservation(number)] < now_ns:
                return number
        raise FaultError(f"all {rules.COUNTERS_MAX} counters of {self.path} are in use")


def _reservation(counter: int) -> int:
    """Return which word of the file says until when counters are reserved."""
    return (rules.counter_offset(counter) + rules.RESERVED_OFFSET) // 8


@contextlib.contextmanager
def _opened(path: Path, flags: int, verb: str) -> Iterator[int]:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
        try:
            yield fd
        finally:
            os.close(fd)
    except OSError as error:
        raise FaultError(f"cannot {verb} the control file {path}: {error.strerror}") from error

"""The control file of one or several patients, and whoever sets their rules.

One writer at a time: two `Control`s of one file would overwrite each other's rules. If the writer
dies, the rules stay in force, hangs until their end; `Control.open` takes them over.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from fault_injection.journal import FaultError
from fault_injection.preload import build, rules
from fault_injection.preload.rules import ArmedRule, Counters, Rule

RULES_VARIABLE = "JBODLAB_FAULT_RULES"


class Control:
    """Sets the rules for every process that was started with `environment()`.

    A rule counts for all calls that begin after `set` or `clear` has returned. A call that is held
    up at that moment is judged again by the new rules: it is made at once if none of them holds it.
    """

    def __init__(self, path: Path, page: mmap.mmap) -> None:
        self.path = path
        self._page = page
        self._state = memoryview(page).cast("Q")
        self._in_force = rules.decode_bank(self._bank(self._generation))
        self._set_last = self._in_force
        self._next_counter = 0

    @classmethod
    def create(cls, path: Path) -> Control:
        """Make a control file without rules.

        It can be written by every user, since the patients write their counters into it: put it
        where nobody else reaches it, and where the patients' user does.

        Raises:
            FaultError: it cannot be made, or is there already.
        """
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                os.write(fd, rules.MAGIC)
                os.ftruncate(fd, rules.FILE_SIZE)
                os.fchmod(fd, 0o666)
                return cls(path.resolve(), mmap.mmap(fd, rules.FILE_SIZE))
            finally:
                os.close(fd)
        except OSError as error:
            raise FaultError(f"cannot make the control file {path}: {error.strerror}") from error

    @classmethod
    def open(cls, path: Path) -> Control:
        """Take over a control file and the rules in force.

        Raises:
            FaultError: it cannot be opened or is no control file.
        """
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                size = os.fstat(fd).st_size
                if size != rules.FILE_SIZE or os.pread(fd, 8, 0) != rules.MAGIC:
                    raise FaultError(f"{path} is no control file of preloaded faults")
                return cls(path.resolve(), mmap.mmap(fd, rules.FILE_SIZE))
            finally:
                os.close(fd)
        except OSError as error:
            raise FaultError(f"cannot open the control file {path}: {error.strerror}") from error

    def environment(self) -> dict[str, str]:
        """Return the variables to start a patient with; builds the library where needed.

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

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules that were set last, with the directories as the kernel names them."""
        return tuple(armed.rule for armed in self._set_last)

    def set(self, wanted: Sequence[Rule]) -> None:
        """Put exactly these rules in force, in this order, all in one instant.

        A rule that was in force already goes on: its counters, and the end of its hang. Of several
        rules about one call the waits add up, until the first that fails it.

        Raises:
            FaultError: too many rules, or a directory that cannot be broken; nothing changed.
        """
        going_on = {armed.rule: armed for armed in self._in_force}
        taken = {armed.counter for armed in self._set_last}
        now_ns = time.monotonic_ns()
        armed = []
        for rule in wanted:
            resolved = replace(rule, directory=Path(os.path.realpath(rule.directory)))
            one = going_on.pop(resolved, None)
            if one is None:
                one = rules.arm(resolved, self._fresh_counter(taken), now_ns)
                taken.add(one.counter)
            armed.append(one)
        self._publish(armed)
        self._set_last = armed

    def clear(self) -> None:
        """Heal: no call is broken any more, what is held up goes on. Counters can still be read."""
        self._publish([])

    def counters(self) -> list[Counters]:
        """Return what each of the rules met that were set last, in their order."""
        found = []
        for armed in self._set_last:
            start = rules.counter_offset(armed.counter)
            found.append(rules.decode_counters(self._page[start : start + rules.COUNTER_SIZE]))
        return found

    @property
    def _generation(self) -> int:
        return rules.generation_of(self._state[rules.STATE_OFFSET // 8])

    def _bank(self, generation: int) -> bytes:
        start = rules.bank_offset(generation)
        return self._page[start : start + rules.BANK_SIZE]

    def _publish(self, armed: list[ArmedRule]) -> None:
        generation = self._generation + 1
        start = rules.bank_offset(generation)
        self._page[start : start + rules.BANK_SIZE] = rules.encode_bank(armed)
        # One store of eight bytes, so that the patients see the old rules or the new ones.
        self._state[rules.STATE_OFFSET // 8] = rules.encode_state(generation, armed)
        self._in_force = armed

    def _fresh_counter(self, taken: Collection[int]) -> int:
        """Return zeroed counters. In turn, since a call may still be counting for a former rule."""
        while self._next_counter in taken:
            self._next_counter = (self._next_counter + 1) % rules.COUNTERS_MAX
        counter = self._next_counter
        self._next_counter = (counter + 1) % rules.COUNTERS_MAX
        start = rules.counter_offset(counter)
        self._page[start : start + rules.COUNTER_SIZE] = bytes(rules.COUNTER_SIZE)
        return counter

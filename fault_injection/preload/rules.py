"""Rules for calls, and the bytes of the control file that carry them to the library.

Little-endian as the machine, every field at its natural alignment; shim.c has the same structs:

    header     64   magic 8 "JBODFLT2" | state 8 | attached 8 | trapped 8 | unused 32
    counters   64 x 64   seen 8 | broken 8 | first_ns 8 | last_ns 8 | reserved until 8 | unused 24
    banks      2 x 16 x 512   rules; the first with calls = 0 ends a bank

    rule       calls 4 | errno 4 | delay_ns 8 | jitter_ns 8 | hang_until_ns 8 | hang_ns 8
               after 8 | limit 8 | seed 8 | every 4 | chance 4 | counter 4 | directory size 4
               name 48 | until_ns 8 | directory 376

A rule about connections has ports, two bytes each, in the place of its directory.

`state` is `generation << 16 | classes`: the union of the classes of all rules, 0 when nothing is
armed, and a generation that grows with every change; the rules in force are in bank
`generation % 2`. `attached` counts the processes that ever loaded the library with this file;
`trapped` are the classes that are met at all, 0 for all of them. A rule ends at `until_ns`, if set.
Times are CLOCK_MONOTONIC, which all processes of a machine share.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from functools import reduce
from itertools import takewhile
from operator import itemgetter, or_
from pathlib import Path
from typing import Any

from fault_injection.errors import FaultError

MAGIC = b"JBODFLT2"
STATE_OFFSET = 8
ATTACHED_OFFSET = 16
TRAPPED_OFFSET = 24
COUNTERS_OFFSET = 64
COUNTER_SIZE = 64
RESERVED_OFFSET = 32
"""In counters: monotonic ns until when they are kept for a rule that is not in force yet."""
COUNTERS_MAX = 64
RULES_MAX = 16
BANK_COUNT = 2
WAIT_S_MAX = 600
"""Longest that a call may be held up; the library keeps to it as well."""

_RULE = struct.Struct("=IiQQQQQQQIIII48sQ376s")
_COUNTER = struct.Struct("=4Q")
_CLASS_BITS = 16
_NAME_SIZE_MAX = 47
_DIRECTORY_SIZE_MAX = 375
_MILLION = 1_000_000
_NS_PER_MS = 1_000_000
_NS_PER_S = 1_000_000_000
_UINT64_MAX = 2**64 - 1
_UINT32_MAX = 2**32 - 1
_ERRNO_MAX = 4095
_PORT_SIZE = 2

MARK = "127.74.66.68"
"""Address that marked connections come from; those are accepted whatever the rules say."""

RULE_SIZE = _RULE.size
BANK_SIZE = RULES_MAX * RULE_SIZE
BANKS_OFFSET = COUNTERS_OFFSET + COUNTERS_MAX * COUNTER_SIZE
FILE_SIZE = BANKS_OFFSET + BANK_COUNT * BANK_SIZE


class CallClass(enum.IntFlag):
    """Classes of calls; a call that does two things (`open` with O_TRUNC) belongs to both."""

    CREATE = 1
    """A name appears: open of what is not there with O_CREAT, mkdir, link, symlink."""
    OPEN = 2
    """open of a file that is there."""
    READ = 4
    """read, readv, pread, preadv; the source of sendfile and copy_file_range."""
    WRITE = 8
    """write, writev, pwrite, pwritev, fallocate; the target of sendfile and copy_file_range."""
    SYNC = 16
    """fsync, fdatasync, syncfs, sync_file_range; of a directory too."""
    TRUNCATE = 32
    """truncate, ftruncate, open of a file that is there with O_TRUNC."""
    RENAME = 64
    """rename, if the old or the new name matches."""
    REMOVE = 128
    """unlink, rmdir."""
    LIST = 256
    """opendir, fdopendir, open of a directory with O_DIRECTORY."""
    STAT = 512
    """stat, lstat, fstat, statvfs, access."""
    ALL = 1023
    """Every call on a file; what follows is about connections."""
    CONNECT = 1024
    """connect, by the port of the other end."""
    ACCEPT = 2048
    """accept, accept4, by the port that is listened on."""
    NETWORK = 3072


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule: calls of a class wait, or fail, or fail after a wait.

    Attributes:
        directory: The rule is about this directory itself and everything below it. Links in it
            are followed when the rule is set, so it need not be absolute. The root for a rule about
            connections, to which it says nothing.
        calls: Classes of the calls it is about.
        errno: The calls fail with this; 0: they are made, after the wait. A connection is then
            made from the address `MARK`.
        delay_ms: The calls take so much longer, at most `WAIT_S_MAX`.
        jitter_ms: And up to so much more, at random.
        hang_s: For so long from when the rule is set, at most `WAIT_S_MAX`, the calls do not
            return unless the rule is taken away; afterwards they are made, or fail with `errno`.
        name: Only files whose own name, without its folder, matches; `*` and `?` are wildcards.
        percent: So many of the calls, drawn from `seed`.
        seed: The same seed and order of calls break the same calls.
        after: The first so many calls are spared.
        every: Of those after, the first and then each n-th.
        limit: Break at most so many calls; None: no limit.
        ports: Of a rule about connections: those of other ends for CONNECT, own ones for ACCEPT.

    Raises:
        FaultError: a value is out of its range, or the rule does nothing.
    """

    directory: Path
    calls: CallClass = CallClass.ALL
    errno: int = 0
    delay_ms: float = 0
    jitter_ms: float = 0
    hang_s: float = 0
    name: str = "*"
    percent: float = 100
    seed: int = 0
    after: int = 0
    every: int = 1
    limit: int | None = None
    ports: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        delay_ms_max = WAIT_S_MAX * 1000
        if self.ports:
            _check("calls", self.calls & ~CallClass.NETWORK, 0, 0)
            _check("number of ports", len(self.ports), 1, _DIRECTORY_SIZE_MAX // _PORT_SIZE)
        _check("calls", self.calls, 1, int(CallClass.NETWORK if self.ports else CallClass.ALL))
        _check("errno", self.errno, 0, _ERRNO_MAX)
        _check("delay_ms", self.delay_ms, 0, delay_ms_max)
        _check("jitter_ms", self.jitter_ms, 0, delay_ms_max)
        _check("hang_s", self.hang_s, 0, WAIT_S_MAX)
        _check("percent", self.percent, 0, 100)
        _check("seed", self.seed, 0, _UINT64_MAX)
        _check("after", self.after, 0, _UINT64_MAX)
        _check("every", self.every, 1, _UINT32_MAX)
        _check("limit", 1 if self.limit is None else self.limit, 1, _UINT64_MAX)
        if not (self.errno or self.delay_ms or self.jitter_ms or self.hang_s or self.ports):
            raise FaultError("a rule needs an errno, delay_ms, jitter_ms or hang_s")
        if not self.name or "/" in self.name or len(self.name.encode()) > _NAME_SIZE_MAX:
            raise FaultError(
                f"invalid name {self.name!r} of a rule: 1 to {_NAME_SIZE_MAX} bytes without a slash"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmedRule:
    """A rule in force.

    Attributes:
        rule: With the directory as the kernel names it.
        counter: Index of its counters.
        hang_until_ns: Monotonic; 0 if it does not hang.
        until_ns: When the rule ends by itself, monotonic; 0 if it does not.
    """

    rule: Rule
    counter: int
    hang_until_ns: int
    until_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """The calls that a rule met in the broker itself.

    Attributes:
        seen: Calls that it was about.
        broken: Those of them that were failed or held up.
        first_ns: When the first one was broken, monotonic; None if none was.
        last_ns: When the last one was.
    """

    seen: int
    broken: int
    first_ns: int | None
    last_ns: int | None


def arm(rule: Rule, counter: int, now_ns: int, length_s: float | None = None) -> ArmedRule:
    """Put a rule in force from now (monotonic ns) on, for so long or until it is lifted."""
    hang_until_ns = now_ns + round(rule.hang_s * _NS_PER_S) if rule.hang_s else 0
    until_ns = 0 if length_s is None else now_ns + round(length_s * _NS_PER_S)
    return ArmedRule(rule=rule, counter=counter, hang_until_ns=hang_until_ns, until_ns=until_ns)


def encode_bank(armed: list[ArmedRule]) -> bytes:
    """Return one whole bank.

    Raises:
        FaultError: too many rules, or a directory that is too long or the root of everything.
    """
    if len(armed) > RULES_MAX:
        raise FaultError(f"{len(armed)} rules at once, at most {RULES_MAX} are possible")
    return b"".join(map(_encode_rule, armed)).ljust(BANK_SIZE, b"\0")


def decode_bank(bank: bytes) -> list[ArmedRule]:
    """Return the rules of a bank."""
    armed = takewhile(itemgetter(0), _RULE.iter_unpack(bank))
    return list(map(_decode_rule, armed))


def encode_state(generation: int, armed: list[ArmedRule]) -> int:
    """Return the state word that puts the rules of a bank in force."""
    classes = reduce(or_, (one.rule.calls for one in armed), 0)
    return generation << _CLASS_BITS | classes


def generation_of(state: int) -> int:
    """Return the generation in a state word."""
    return state >> _CLASS_BITS


def bank_offset(generation: int) -> int:
    """Return where the rules of a generation lie in the file."""
    return BANKS_OFFSET + generation % BANK_COUNT * BANK_SIZE


def counter_offset(counter: int) -> int:
    """Return where the counters with this index lie in the file."""
    return COUNTERS_OFFSET + counter * COUNTER_SIZE


def decode_counters(data: bytes) -> Counters:
    """Return one set of counters from its `COUNTER_SIZE` bytes."""
    seen, broken, first_ns, last_ns = _COUNTER.unpack_from(data)
    return Counters(seen=seen, broken=broken, first_ns=first_ns or None, last_ns=last_ns or None)


def encode_counters(found: Counters) -> bytes:
    """Return the bytes of one set of counters, as far as they mean something."""
    return _COUNTER.pack(found.seen, found.broken, found.first_ns or 0, found.last_ns or 0)


def _encode_rule(armed: ArmedRule) -> bytes:
    rule = armed.rule
    directory = bytes(rule.directory)
    if len(directory) > _DIRECTORY_SIZE_MAX:
        raise FaultError(f"{rule.directory} is longer than {_DIRECTORY_SIZE_MAX} bytes")
    if rule.ports:
        directory = struct.pack(f"={len(rule.ports)}H", *rule.ports)
    elif rule.directory == Path(rule.directory.anchor):
        raise FaultError(f"{rule.directory} is the root of the file system, it is never broken")
    return _RULE.pack(
        rule.calls,
        rule.errno,
        round(rule.delay_ms * _NS_PER_MS),
        round(rule.jitter_ms * _NS_PER_MS),
        armed.hang_until_ns,
        round(rule.hang_s * _NS_PER_S),
        rule.after,
        rule.limit or 0,
        rule.seed,
        rule.every,
        round(rule.percent * _MILLION / 100),
        armed.counter,
        len(directory),
        rule.name.encode(),
        armed.until_ns,
        directory,
    )


def _decode_rule(values: tuple[Any, ...]) -> ArmedRule:
    calls, errno, delay_ns, jitter_ns, hang_until_ns, hang_ns, *numbers = values[:12]
    after, limit, seed, every, chance, counter = numbers
    directory_size, name, until_ns, directory = values[12:]
    where, ports = directory[:directory_size].decode(errors="surrogateescape"), ()
    if calls & CallClass.NETWORK:
        where, ports = "/", struct.unpack_from(f"={directory_size // _PORT_SIZE}H", directory)
    rule = Rule(
        directory=Path(where),
        calls=CallClass(calls),
        errno=errno,
        delay_ms=delay_ns / _NS_PER_MS,
        jitter_ms=jitter_ns / _NS_PER_MS,
        hang_s=hang_ns / _NS_PER_S,
        name=name.rstrip(b"\0").decode(),
        percent=chance * 100 / _MILLION,
        seed=seed,
        after=after,
        every=every,
        limit=limit or None,
        ports=ports,
    )
    return ArmedRule(rule=rule, counter=counter, hang_until_ns=hang_until_ns, until_ns=until_ns)


def _check(name: str, value: float, low: int, high: int) -> None:
    if not low <= value <= high:
        raise FaultError(f"invalid value {value} for {name} of a rule: {low} to {high}")

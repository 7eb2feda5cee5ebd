"""The kinds of faults, the keys that each accepts, and how their values are written.

One vocabulary for the command line, plans, tests and pages. A wanted fault is a frozen value, made
from what a user wrote; every mistake there is one sentence that names the wrong word.
"""

from __future__ import annotations

import difflib
import enum
import errno
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from fault_injection.errors import FaultError
from fault_injection.preload.rules import CallClass
from jbodlab.vocabulary.durations import duration_s

HANG_S_DEFAULT = 60.0
HANG_S_MAX = 600.0
LIFETIME_S_MIN, LIFETIME_S_MAX = 2.0, 30.0
"""A server has to find its certificate before it has expired, and the injector waits for that."""
LENGTH_S_MAX = 86_400.0
"""Longest length of any fault, one day."""

CALL_CLASSES: Mapping[str, CallClass] = MappingProxyType(
    {str(one.name).lower(): one for one in CallClass.ALL}
)

CONTROLLER, BROKERS, CLIENTS = "controller", "brokers", "clients"
"""From whom a node can be cut off; single ones are named as `broker-2` or `controller-101`."""

WRITING = (
    CallClass.CREATE | CallClass.WRITE | CallClass.TRUNCATE | CallClass.RENAME | CallClass.REMOVE
)
"""The calls that a file system refuses that is mounted read-only."""


_CERTIFICATES, _ADMINISTRATOR = ("certificates",), ("administrator",)


class Scope(enum.Enum):
    """The scope of a fault."""

    DIRECTORY = "directory"
    BROKER = "broker"
    EITHER = "directory or broker"
    CLUSTER = "cluster"


class Kind(NamedTuple):
    """One kind of fault.

    Attributes:
        name: Its name.
        meaning: Its effect, in a few words.
        mechanisms: Names of what can make it, the preferred one first.
        parameters: The keys that it accepts, besides `for` and `mechanism`.
        scope: The thing that it breaks.
    """

    name: str
    meaning: str
    mechanisms: tuple[str, ...]
    parameters: tuple[str, ...] = ()
    scope: Scope = Scope.DIRECTORY

    @property
    def hits_clients(self) -> bool:
        """Whether clients of a closed cluster are what it breaks, and servers go on."""
        return self.mechanisms in (_CERTIFICATES, _ADMINISTRATOR)


_CALLS = ("calls", "percent", "files", "seed")
_FILES, _DISKS, _PROCESS = ("files",), ("directories",), ("process",)

# fmt: off
_KINDS = (
    Kind("permission", "the directory loses all permissions (chmod 000)", _FILES),
    Kind("read-only-bits", "nothing below may be written (chmod -R a-w)", _FILES),
    Kind("file-in-place", "a regular file takes the directory's place", _FILES),
    Kind("deleted", "the directory is moved away", _FILES),
    Kind("replaced", "an empty directory takes its place while the process runs", _FILES),
    Kind("files-deleted", "its files, or those that match, are moved away", _FILES, ("files",)),
    Kind("eio", "calls fail, on open files too", ("preload", "loop", "fuse"), ("errno", *_CALLS)),
    Kind("read-only", "every call that changes something fails with EROFS", ("preload", "fuse")),
    Kind("full", "no space is left (ENOSPC)", ("balloon", "preload", "fuse"), ("leave",)),
    Kind("slow", "calls take longer", ("preload", "fuse"), ("delay", "jitter", *_CALLS)),
    Kind("hang", "calls do not return until the fault is healed", ("preload", "loop", "fuse"),
         _CALLS),
    Kind("power-loss", "the broker is killed, and what was never synced is gone", ("loop",),
         scope=Scope.EITHER),
    Kind("swapped", "two directories of a broker are exchanged", _DISKS, ("with",)),
    Kind("emptied", "an empty directory takes its place, as if the disk were new", _DISKS),
    Kind("twin", "the directory has the id of another directory", _DISKS, ("with",)),
    Kind("kill", "the process is killed (SIGKILL)", _PROCESS, scope=Scope.BROKER),
    Kind("stop", "the process is asked to end (SIGTERM)", _PROCESS, scope=Scope.BROKER),
    Kind("restart", "the process is ended cleanly and started again at once", _PROCESS,
         scope=Scope.BROKER),
    Kind("cut", "new connections are refused, existing ones are dropped",
         ("connections", "packets"),
         ("from",), Scope.BROKER),
    Kind("certificate-expires", "the certificate that a broker shows runs out", _CERTIFICATES,
         ("lifetime",), Scope.BROKER),
    Kind("certificate-replaced", "a broker shows a new certificate, without a restart",
         _CERTIFICATES, scope=Scope.BROKER),
    Kind("certificate-untrusted", "a broker shows a certificate of an authority that nobody trusts",
         _CERTIFICATES, scope=Scope.BROKER),
    Kind("user-removed", "the credential of a user is removed", _ADMINISTRATOR, ("principal",),
         Scope.CLUSTER),
    Kind("acl-removed", "a user loses all rights", _ADMINISTRATOR, ("principal",), Scope.CLUSTER),
)
# fmt: on

KINDS: Mapping[str, Kind] = MappingProxyType({kind.name: kind for kind in _KINDS})

PARAMETERS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "for": ("LENGTH", "how long until it heals by itself, such as 20s (default for hang: 60s)"),
        "calls": ("LIST", f"which calls (default: all): {','.join(CALL_CLASSES)}"),
        "errno": ("NAME", "what calls fail with (default: EIO)"),
        "percent": ("N", "share of the calls in percent (default: 100)"),
        "files": ("GLOB", "only files whose name matches"),
        "seed": ("N", "seed of the choice where percent is below 100"),
        "delay": ("TIME", "how much longer calls take (default: 100ms)"),
        "jitter": ("TIME", "random extra delay, at most this (default: 0)"),
        "leave": ("SIZE", "how much space stays free (default: 0)"),
        "with": ("DIR", "the other directory"),
        "from": (
            "LIST",
            "controller,brokers,clients or single nodes (default: from all)",
        ),
        "lifetime": ("TIME", "how long its last certificate is valid (default: 5s)"),
        "principal": ("NAME", "the user that loses it (default: that of applications)"),
        "mechanism": ("NAME", "what makes the fault (default: the first mechanism that can)"),
    }
)
"""The keys of faults, each with the name of its value and its meaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSpec:
    """A fault that is wanted.

    Attributes:
        kind: Name of the kind.
        length_s: After so long it heals by itself; None: it lasts until it is healed.
        mechanism: Mechanism to make it with; empty: the first of the kind's that can.
        calls: Classes of calls it is about; None: all that the mechanism sees.
        errno: Error that calls fail with.
        percent: How many of the calls.
        files: Only files whose own name matches; `*` and `?` are wildcards.
        seed: Which of the calls, where not all of them.
        delay_ms, jitter_ms: How much longer calls take, and up to how much more at random.
        leave_bytes: Space that stays free.
        other: The second directory.
        cut_from: From whom a broker is cut off; empty: from everybody.
        lifetime_s: How long a certificate is valid that will expire.
        principal: A user by name, or a principal; empty: the user of applications.
    """

    kind: str
    length_s: float | None = None
    mechanism: str = ""
    calls: CallClass | None = None
    errno: int = errno.EIO
    percent: float = 100
    files: str = "*"
    seed: int = 0
    delay_ms: float = 100
    jitter_ms: float = 0
    leave_bytes: int = 0
    other: Path | None = None
    cut_from: tuple[str, ...] = ()
    lifetime_s: float = 5.0
    principal: str = ""


def kind_named(word: str) -> Kind:
    """Return a kind by its name.

    Raises:
        FaultError: there is none.
    """
    found = KINDS.get(word)
    if found is None:
        raise FaultError(
            f"unknown kind of fault {word!r}{meant(word, KINDS)}; "
            f"expected one of {', '.join(KINDS)}"
        )
    return found


def spec(word: str, parameters: Mapping[str, object] | None = None) -> FaultSpec:
    """Return the wanted fault that a user has described.

    Args:
        word: The kind.
        parameters: By their names as written: `for`, `mechanism` and those of the kind. Values
            are texts (`80ms`, `sync,write`, `64KiB`) or what a YAML file has in their place:
            numbers (of seconds, bytes, percent), and lists for `calls` and `from`.

    Raises:
        FaultError: an unknown kind or key, or a wrong value.
    """
    kind = kind_named(word)
    given = {key: value for key, value in (parameters or {}).items() if value is not None}
    allowed = ("for", "mechanism", *kind.parameters)
    for key in given:
        if key not in allowed:
            raise FaultError(
                f"unknown key {key!r} of {kind.name}{meant(key, allowed)}; "
                f"expected one of {', '.join(allowed)}"
            )
    values: dict[str, object] = {}
    for key, value in given.items():
        name, parse = _PARSERS[key]
        try:
            values[name] = parse(value)
        except ValueError as error:
            raise FaultError(f"invalid {key} of {kind.name}: {error}") from None
    if values.get("mechanism", "") not in ("", *kind.mechanisms):
        raise FaultError(
            f"invalid mechanism of {kind.name}: expected one of "
            f"{', '.join(kind.mechanisms)}, got {values['mechanism']!r}"
        )
    if kind.name in ("swapped", "twin") and "other" not in values:
        raise FaultError(f"{kind.name} needs the key `with`: the other directory")
    if kind.name == "restart" and "length_s" in values:
        raise FaultError("restart takes no length: the process is started again at once")
    if kind.name == "hang":
        length_s = values.setdefault("length_s", HANG_S_DEFAULT)
        if isinstance(length_s, float) and length_s > HANG_S_MAX:
            raise FaultError(
                f"invalid for of hang: expected at most {HANG_S_MAX:g} s, got {given['for']!r}"
            )
    return FaultSpec(kind=kind.name, **values)  # type: ignore[arg-type]


def meant(word: object, known: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)` for the known word that is closest; empty if none is."""
    near = difflib.get_close_matches(str(word), list(known), 1)
    return f" (did you mean {near[0]!r}?)" if near else ""


_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?(B|KB|MB|GB|KiB|MiB|GiB)?")
_NODE = re.compile(r"(?:broker|controller)-[1-9]\d*")
_UNITS = {
    "B": 1,
    "KB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
}


def size_bytes(value: object) -> int:
    """Return the bytes of a size: `200B`, `64KiB`, `1MB`, or a number of bytes.

    Raises:
        ValueError: it is none.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str) and (match := _SIZE.fullmatch(value)):
        return round(float(match[1]) * _UNITS[match[2] or "B"])
    raise ValueError(f"expected a size such as 200B, 64KiB or 1MB, got {value!r}")


def _length(value: object) -> float:
    length_s = duration_s(value)
    if not 0 < length_s <= LENGTH_S_MAX:
        raise ValueError(f"expected more than 0 and at most one day, got {value!r}")
    return length_s


def _lifetime(value: object) -> float:
    found_s = duration_s(value)
    if not LIFETIME_S_MIN <= found_s <= LIFETIME_S_MAX:
        raise ValueError(f"expected from {LIFETIME_S_MIN:g} to {LIFETIME_S_MAX:g} s, got {value!r}")
    return found_s


def _milliseconds(value: object) -> float:
    found_s = duration_s(value)
    if found_s > HANG_S_MAX:
        raise ValueError(f"expected at most {HANG_S_MAX:g} s, got {value!r}")
    return found_s * 1000


def _words(value: object) -> list[str]:
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not words:
        raise ValueError(f"expected a list of names, got {value!r}")
    return [str(word).strip() for word in words]


def _calls(value: object) -> CallClass:
    found = CallClass(0)
    for word in _words(value):
        if word not in CALL_CLASSES:
            raise ValueError(
                f"unknown call {word!r}{meant(word, CALL_CLASSES)}; "
                f"expected {', '.join(CALL_CLASSES)}"
            )
        found |= CALL_CLASSES[word]
    return found


def _cut_from(value: object) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(_words(value)))
    for word in found:
        if word not in (CONTROLLER, BROKERS, CLIENTS) and not _NODE.fullmatch(word):
            raise ValueError(
                f"expected controller, brokers, clients, broker-N or controller-N, got {word!r}"
            )
    return found


def _errno(value: object) -> int:
    if isinstance(value, str) and isinstance(getattr(errno, value, None), int):
        return int(getattr(errno, value))
    number = int(value) if isinstance(value, int) or str(value).isdecimal() else 0  # type: ignore[call-overload]
    if number in errno.errorcode:
        return number
    raise ValueError(f"expected the name of an error such as EIO, got {value!r}")


def _percent(value: object) -> float:
    try:
        found = float(str(value).removesuffix("%"))
    except ValueError:
        found = -1
    if not 0 < found <= 100:
        raise ValueError(f"expected more than 0 and at most 100, got {value!r}")
    return found


def _seed(value: object) -> int:
    if not str(value).isdecimal():
        raise ValueError(f"expected a whole number, got {value!r}")
    return int(str(value))


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"expected a name, got {value!r}")
    return value


def _path(value: object) -> Path:
    if isinstance(value, Path):
        return value
    return Path(_text(value))


_PARSERS = {
    "for": ("length_s", _length),
    "mechanism": ("mechanism", _text),
    "calls": ("calls", _calls),
    "errno": ("errno", _errno),
    "percent": ("percent", _percent),
    "files": ("files", _text),
    "seed": ("seed", _seed),
    "delay": ("delay_ms", _milliseconds),
    "jitter": ("jitter_ms", _milliseconds),
    "leave": ("leave_bytes", size_bytes),
    "with": ("other", _path),
    "from": ("cut_from", _cut_from),
    "lifetime": ("lifetime_s", _lifetime),
    "principal": ("principal", _text),
}

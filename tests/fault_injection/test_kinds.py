"""The words for faults: what they mean, and what is said about wrong ones."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from fault_injection import kinds
from fault_injection.errors import FaultError
from fault_injection.kinds import FaultSpec
from fault_injection.preload import CallClass
from fault_injection.registry import MECHANISMS

RIGHT = [
    ("permission", {}, FaultSpec(kind="permission")),
    ("read-only-bits", {}, FaultSpec(kind="read-only-bits")),
    ("file-in-place", {}, FaultSpec(kind="file-in-place")),
    ("deleted", {"for": "20s"}, FaultSpec(kind="deleted", length_s=20)),
    ("eio", {"calls": None}, FaultSpec(kind="eio")),
    (
        "eio",
        {"calls": "sync,write", "errno": "ENOSPC", "percent": "2.5%", "files": "*.log", "seed": 7},
        FaultSpec(
            kind="eio",
            calls=CallClass.SYNC | CallClass.WRITE,
            errno=errno.ENOSPC,
            percent=2.5,
            files="*.log",
            seed=7,
        ),
    ),
    ("eio", {"calls": ["list"], "errno": 5}, FaultSpec(kind="eio", calls=CallClass.LIST)),
    ("full", {"leave": "64KiB"}, FaultSpec(kind="full", leave_bytes=65536)),
    ("full", {"leave": 12}, FaultSpec(kind="full", leave_bytes=12)),
    (
        "slow",
        {"delay": "80ms", "jitter": "1.5s", "for": 3},
        FaultSpec(kind="slow", delay_ms=80, jitter_ms=1500, length_s=3),
    ),
    ("hang", {}, FaultSpec(kind="hang", length_s=60)),
    ("hang", {"for": "10m"}, FaultSpec(kind="hang", length_s=600)),
    ("twin", {"with": "/d2"}, FaultSpec(kind="twin", other=Path("/d2"))),
    ("kill", {"for": "1m30s"}, FaultSpec(kind="kill", length_s=90)),
    ("kill", {"for": "1h"}, FaultSpec(kind="kill", length_s=3600)),
]


@pytest.mark.parametrize(("word", "parameters", "expected"), RIGHT)
def test_words_mean_a_fault(word: str, parameters: dict[str, object], expected: FaultSpec) -> None:
    assert kinds.spec(word, parameters) == expected


WRONG = [
    ("flood", {}, "unknown kind of fault 'flood'; expected one of permission, "),
    (
        "eio",
        {"delay": "1s"},
        "unknown key 'delay' of eio; expected one of for, mechanism, errno",
    ),
    ("permission", {"calls": "sync"}, "unknown key 'calls' of permission"),
    (
        "certificate-expires",
        {"lifetime": "1h"},
        "invalid lifetime of certificate-expires: expected from 2 to 30 s, got '1h'",
    ),
    (
        "eio",
        {"calls": "fsync"},
        "unknown call 'fsync' (did you mean 'sync'?); expected create",
    ),
    ("eio", {"calls": []}, "invalid calls of eio: expected a list of names, got []"),
    (
        "eio",
        {"errno": "EWHAT"},
        "expected the name of an error such as EIO, got 'EWHAT'",
    ),
    ("eio", {"percent": 0}, "invalid percent of eio: expected more than 0 and at most 100, got 0"),
    (
        "eio",
        {"percent": "many"},
        "expected more than 0 and at most 100, got 'many'",
    ),
    ("eio", {"mechanism": "magic"}, "expected one of preload, loop, fuse, got 'magic'"),
    (
        "slow",
        {"delay": "5 parsecs"},
        "expected a duration such as 250ms, 20s or 1m30s, got '5 parsecs'",
    ),
    (
        "slow",
        {"delay": ""},
        "expected a duration such as 250ms, 20s or 1m30s, got ''",
    ),
    (
        "slow",
        {"delay": True},
        "expected a duration such as 250ms, 20s or 1m30s, got True",
    ),
    ("slow", {"delay": "11m"}, "invalid delay of slow: expected at most 600 s, got '11m'"),
    (
        "full",
        {"leave": "a bit"},
        "expected a size such as 200B, 64KiB or 1MB, got 'a bit'",
    ),
    ("hang", {"for": "11m"}, "invalid for of hang: expected at most 600 s, got '11m'"),
    ("kill", {"for": 0}, "invalid for of kill: expected more than 0 and at most one day, got 0"),
    (
        "kill",
        {"for": "25h"},
        "expected more than 0 and at most one day, got '25h'",
    ),
    ("swapped", {}, "swapped needs the key `with`: the other directory"),
    ("restart", {"for": "1s"}, "restart takes no length: the process is started again at once"),
]


@pytest.mark.parametrize(("word", "parameters", "message"), WRONG)
def test_a_wrong_word_is_named_in_one_sentence(
    word: str, parameters: dict[str, object], message: str
) -> None:
    with pytest.raises(FaultError) as caught:
        kinds.spec(word, parameters)

    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_mechanism_that_a_kind_names_is_there() -> None:
    named = {name for kind in kinds.KINDS.values() for name in kind.mechanisms}

    assert named == set(MECHANISMS)

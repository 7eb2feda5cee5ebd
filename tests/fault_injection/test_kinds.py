"""The words for faults: what they mean, and what is said about wrong ones."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from fault_injection import kinds
from fault_injection.errors import FaultError
from fault_injection.journal import read_all
from fault_injection.kinds import FaultSpec
from fault_injection.preload import CallClass
from fault_injection.registry import MECHANISMS

RIGHT = [
    ("chmod000", {}, FaultSpec(kind="permission")),
    ("readonly", {}, FaultSpec(kind="read-only-bits")),
    ("file", {}, FaultSpec(kind="file-in-place")),
    ("delete", {"for": "20s"}, FaultSpec(kind="deleted", length_s=20)),
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
    ("flood", {}, "no kind of fault is named 'flood'; there are permission, "),
    ("eio", {"delay": "1s"}, "eio knows no 'delay'; it may be told for, mechanism, errno, calls"),
    ("permission", {"calls": "sync"}, "permission knows no 'calls'"),
    ("eio", {"calls": "fsync"}, "invalid calls of eio: 'fsync' is none of create, open, read"),
    ("eio", {"calls": []}, "invalid calls of eio: [] is no list of words"),
    ("eio", {"errno": "EWHAT"}, "invalid errno of eio: 'EWHAT' is no errno, such as EIO"),
    ("eio", {"percent": 0}, "invalid percent of eio: 0 is not above 0 and at most 100"),
    ("eio", {"percent": "many"}, "invalid percent of eio: 'many' is not above 0"),
    ("eio", {"mechanism": "magic"}, "'magic' is none of preload, loop"),
    ("slow", {"delay": "5 parsecs"}, "invalid delay of slow: '5 parsecs' is not a duration"),
    ("slow", {"delay": ""}, "invalid delay of slow: '' is not a duration"),
    ("slow", {"delay": True}, "invalid delay of slow: True is not a duration"),
    ("slow", {"delay": "11m"}, "invalid delay of slow: '11m' is longer than 600 s"),
    ("full", {"leave": "a bit"}, "invalid leave of full: 'a bit' is not a size"),
    ("hang", {"for": "11m"}, "invalid for of hang: '11m' is longer than 600 s"),
    ("kill", {"for": 0}, "invalid for of kill: 0 is not between 0 and one day"),
    ("kill", {"for": "25h"}, "invalid for of kill: '25h' is not between 0 and one day"),
    ("swapped", {}, "swapped needs `with`, the other directory"),
    ("restart", {"for": "1s"}, "restart has no length: the process is started again at once"),
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


def test_a_journal_of_former_names_is_still_read(tmp_path: Path) -> None:
    begin = {
        "event": "begin",
        "id": 1,
        "wall": "2026-01-01T00:00:00+00:00",
        "monotonic_ns": 1,
        "kind": "chmod000",
        "path": "/d1",
        "given": "/d1",
        "uid": 1500,
        "undo": {"inode": 7, "modes": {".": 488}, "aside": "", "marker": ""},
    }
    injected = {"event": "injected", "id": 1, "wall": begin["wall"], "monotonic_ns": 2}
    file = tmp_path / "faults.jsonl"
    file.write_text(f"{json.dumps(begin)}\n{json.dumps(injected)}\n")

    fault = read_all(file)[1]

    assert (fault.kind, fault.mechanism, fault.state) == ("permission", "files", "armed")
    assert fault.is_open

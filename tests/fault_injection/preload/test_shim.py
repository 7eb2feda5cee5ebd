"""The contract of the preloaded library, on a process that makes every call it wraps."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fault_injection.preload import CallClass, Control, Rule
from tests.fault_injection.patient import DEADLINE_S, SERVER_UID, USER, Patient, Rules

pytestmark = pytest.mark.process

CREATE = CallClass.CREATE
OPEN = CallClass.OPEN
READ = CallClass.READ
WRITE = CallClass.WRITE
SYNC = CallClass.SYNC
TRUNCATE = CallClass.TRUNCATE
RENAME = CallClass.RENAME
REMOVE = CallClass.REMOVE
LIST = CallClass.LIST
STAT = CallClass.STAT

NO_CLASS = CallClass(0)
CLASSES = {
    "create": CREATE,
    "create_at": CREATE,
    "create_relative": CREATE,
    "mkdir": CREATE,
    "mkdir_at": CREATE,
    "symlink": CREATE,
    "link": CREATE,
    "open": OPEN,
    "open_at": OPEN,
    "open_relative": OPEN,
    "open_or_create": OPEN,
    "open_folder": LIST,
    "open_truncating": OPEN | TRUNCATE,
    "read": READ,
    "readv": READ,
    "pread": READ,
    "preadv": READ,
    "preadv2": READ,
    "sendfile_from": READ,
    "copy_from": READ,
    "write": WRITE,
    "writev": WRITE,
    "pwrite": WRITE,
    "pwritev": WRITE,
    "pwritev2": WRITE,
    "pwrite_unlinked": WRITE,
    "pwrite_dup2": WRITE,
    "pwrite_dup2_outside": NO_CLASS,
    "pwrite_index": WRITE,
    "fallocate": WRITE,
    "sendfile_to": WRITE,
    "copy_to": WRITE,
    "write_fifo": NO_CLASS,
    "fsync": SYNC,
    "fsync_index": SYNC,
    "fsync_unlinked": SYNC,
    "fdatasync": SYNC,
    "fsync_folder": SYNC,
    "sync_file_range": SYNC,
    "ftruncate": TRUNCATE,
    "truncate": TRUNCATE,
    "rename": RENAME,
    "replace": RENAME,
    "rename_at": RENAME,
    "rename_out": RENAME,
    "unlink": REMOVE,
    "unlink_at": REMOVE,
    "rmdir": REMOVE,
    "listdir": LIST,
    "listdir_handle": LIST,
    "scandir": LIST,
    "stat": STAT,
    "stat_at": STAT,
    "lstat": STAT,
    "fstat": STAT,
    "statvfs": STAT,
    "fstatvfs": STAT,
    "access": STAT,
}
ONE_CLASS = list(CallClass.ALL)
each_class = pytest.mark.parametrize("calls", ONE_CLASS, ids=lambda one: one.name.lower())


def names(calls: CallClass) -> list[str]:
    return [name for name, classes in CLASSES.items() if classes & calls]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that the broker's user reaches, with its control file."""
    root = Path(tempfile.mkdtemp(prefix="jbod-preload-test-"))
    root.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(root, SERVER_UID, SERVER_UID)
    yield root
    shutil.rmtree(root)


@pytest.fixture(scope="module")
def shared(folder: Path) -> Iterator[tuple[Control, Patient]]:
    control = Control.create(folder / "faults", *USER)
    patient = Patient(folder, control.environment())
    yield control, patient
    patient.kill()


@pytest.fixture
def rules(shared: tuple[Control, Patient]) -> Iterator[Rules]:
    yield Rules(shared[0])
    shared[0].clear()


@pytest.fixture
def patient(shared: tuple[Control, Patient]) -> Patient:
    return shared[1]


@pytest.fixture
def d1(patient: Patient, request: pytest.FixtureRequest) -> Path:
    return patient.directory(f"{abs(hash(request.node.nodeid))}-1")


@pytest.fixture
def d10(patient: Patient, d1: Path) -> Path:
    """A neighbour whose name begins alike."""
    return patient.directory(f"{d1.name}0")


@each_class
def test_calls_of_a_class_fail_in_the_directory_and_all_others_work(
    rules: Rules, patient: Patient, d1: Path, d10: Path, calls: CallClass
) -> None:
    rules.set(Rule(directory=d1, calls=calls, errno=errno.EIO))

    here = {name: patient.error(name, d1) for name in CLASSES}
    beside = {name: patient.error(name, d10) for name in CLASSES}

    broken = dict.fromkeys(names(calls), errno.EIO)
    assert here == {**dict.fromkeys(CLASSES, 0), **broken}
    assert set(beside.values()) == {0}
    assert rules.counters()[0].broken == len(broken)


def test_everything_works_again_after_healing(rules: Rules, patient: Patient, d1: Path) -> None:
    rules.set(Rule(directory=d1, errno=errno.EIO))
    broken = {name: patient.error(name, d1) for name in CLASSES}
    rules.control.clear()

    healed = {name: patient.error(name, d1) for name in CLASSES}

    assert [name for name, error in broken.items() if not error] == names_of_none()
    assert set(healed.values()) == {0}


def names_of_none() -> list[str]:
    return [name for name, classes in CLASSES.items() if not classes]


@each_class
def test_calls_of_a_class_hang_until_healed(
    rules: Rules, patient: Patient, d1: Path, d10: Path, calls: CallClass
) -> None:
    rules.set(Rule(directory=d1, calls=calls, hang_s=60))

    hanging = [patient.order(name, d1) for name in names(calls)]
    rules.wait_broken(len(hanging))
    beside = {name: patient.error(name, d10) for name in names(calls)}
    healed_ns = time.monotonic_ns()
    rules.control.clear()

    outcomes = [call.outcome() for call in hanging]
    assert {outcome.errno for outcome in outcomes} == {0}
    assert all(outcome.ended_ns > healed_ns for outcome in outcomes)
    assert set(beside.values()) == {0}


@each_class
def test_calls_of_a_class_take_longer(
    rules: Rules, patient: Patient, d1: Path, calls: CallClass
) -> None:
    rules.set(Rule(directory=d1, calls=calls, delay_ms=30))

    delayed = [patient.order(name, d1) for name in names(calls)]

    outcomes = [call.outcome() for call in delayed]
    assert {outcome.errno for outcome in outcomes} == {0}
    assert all(outcome.ended_ns - outcome.begun_ns >= 30_000_000 for outcome in outcomes)
    assert rules.counters()[0].broken == len(delayed)


@pytest.mark.parametrize("code", [0, errno.EIO])
def test_a_hang_ends_by_itself(rules: Rules, patient: Patient, d1: Path, code: int) -> None:
    """With an errno the calls fail at its end, and afterwards."""
    hang_ns = 100_000_000
    broken = 0
    while not broken:
        # On a busy machine the first ones may be over before the call is made.
        hang_ns *= 2
        armed_ns = time.monotonic_ns()
        rules.set(Rule(directory=d1, calls=SYNC, hang_s=hang_ns / 1e9, errno=code))
        hung = patient.order("fsync", d1).outcome()
        broken = rules.counters()[0].broken
    later = patient.error("fsync", d1)

    assert (hung.errno, later) == (code, code)
    assert hung.ended_ns >= armed_ns + hang_ns
    assert (rules.counters()[0].seen, rules.counters()[0].broken) == (2, 2 if code else 1)


@pytest.mark.parametrize(
    ("held", "then", "expected"),
    [
        ({"hang_s": 60, "errno": errno.EIO}, None, 0),
        ({"delay_ms": 500_000}, None, 0),
        ({"hang_s": 60}, errno.EROFS, errno.EROFS),
    ],
    ids=["a hang with an errno is healed", "a delay is healed", "an error replaces a hang"],
)
def test_a_call_that_is_held_ends_as_the_next_rules_say(
    rules: Rules, patient: Patient, d1: Path, held: dict[str, Any], then: int | None, expected: int
) -> None:
    rules.set(Rule(directory=d1, calls=SYNC, **held))
    call = patient.order("fsync", d1)
    rules.wait_broken(1)

    rules.set(*([] if then is None else [Rule(directory=d1, calls=SYNC, errno=then)]))

    assert call.outcome().errno == expected


def test_what_hangs_goes_on_hanging_when_another_rule_comes_or_goes(
    rules: Rules, patient: Patient, d1: Path, d10: Path
) -> None:
    hang = Rule(directory=d1, calls=SYNC, hang_s=60)
    rules.set(hang)
    hanging = patient.order("fsync", d1)
    rules.wait_broken(1)

    rules.set(hang, Rule(directory=d10, calls=SYNC, errno=errno.EIO))
    assert patient.error("fsync", d10) == errno.EIO
    rules.set(hang)
    assert patient.error("fsync", d10) == 0
    second = patient.order("fdatasync", d1)
    rules.wait_broken(2)
    healed_ns = time.monotonic_ns()
    rules.control.clear()

    assert all(call.outcome().ended_ns > healed_ns for call in (hanging, second))
    assert (rules.counters()[0].seen, rules.counters()[0].broken) == (2, 2)


def test_a_rule_may_be_about_some_names_only(rules: Rules, patient: Patient, d1: Path) -> None:
    rules.set(Rule(directory=d1, calls=SYNC | WRITE, name="*.log", errno=errno.EIO))

    asked = ("fsync", "fsync_unlinked", "fsync_index", "fsync_folder", "pwrite", "pwrite_index")
    found = [patient.error(name, d1) for name in asked]

    assert found == [errno.EIO, errno.EIO, 0, 0, errno.EIO, 0]
    assert rules.counters()[0].seen == 3


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("handle.log", True),
        ("handle.lo", False),
        ("andle.log", False),
        ("*", True),
        ("h*l*g", True),
        ("*.log*", True),
        ("handle.???", True),
        ("handle.????", False),
        ("*.lo", False),
        ("*x*", False),
    ],
)
def test_name_patterns(
    rules: Rules, patient: Patient, d1: Path, pattern: str, matches: bool
) -> None:
    rules.set(Rule(directory=d1, calls=SYNC, name=pattern, errno=errno.EIO))

    assert (patient.error("fsync", d1) == errno.EIO) is matches


def test_two_rules_in_two_directories_count_apart(
    rules: Rules, patient: Patient, d1: Path, d10: Path
) -> None:
    rules.set(
        Rule(directory=d1, calls=SYNC, errno=errno.EIO),
        Rule(directory=d10, calls=SYNC | WRITE, errno=errno.EROFS),
    )

    found = [patient.error("fsync", d1), patient.error("fsync", d10), patient.error("write", d10)]

    assert found == [errno.EIO, errno.EROFS, errno.EROFS]
    assert [rule.broken for rule in rules.counters()] == [1, 2]


def test_waits_of_rules_about_one_call_add_up_until_one_fails_it(
    rules: Rules, patient: Patient, d1: Path
) -> None:
    rules.set(
        Rule(directory=d1, calls=SYNC, delay_ms=20),
        Rule(directory=d1, calls=SYNC, delay_ms=30, errno=errno.EIO),
        Rule(directory=d1, calls=SYNC, errno=errno.EROFS),
    )

    outcome = patient.order("fsync", d1).outcome()

    assert outcome.errno == errno.EIO
    assert outcome.ended_ns - outcome.begun_ns >= 50_000_000
    assert [rule.seen for rule in rules.counters()] == [1, 1, 0]


def test_jitter_is_added_to_the_delay(rules: Rules, patient: Patient, d1: Path) -> None:
    rules.set(Rule(directory=d1, calls=STAT, jitter_ms=1))

    assert [patient.error("fstat", d1) for _ in range(5)] == [0] * 5

    assert rules.counters()[0].broken == 5


def test_every_nth_call_after_the_first_ones_up_to_a_limit(
    rules: Rules, patient: Patient, d1: Path
) -> None:
    rules.set(Rule(directory=d1, calls=SYNC, errno=errno.EIO, after=2, every=3, limit=2))

    found = [patient.error("fsync", d1) for _ in range(12)]

    assert [number for number, error in enumerate(found) if error] == [2, 5]
    assert (rules.counters()[0].seen, rules.counters()[0].broken) == (12, 2)


def test_a_share_of_the_calls_is_the_same_for_the_same_seed(
    rules: Rules, patient: Patient, d1: Path
) -> None:
    runs = []
    for seed in (1, 1, 2):
        rules.control.clear()
        rules.set(Rule(directory=d1, calls=STAT, errno=errno.EIO, percent=30, seed=seed))
        runs.append([patient.error("fstat", d1) for _ in range(100)])

    assert runs[0] == runs[1] != runs[2]
    assert all(15 <= sum(map(bool, run)) <= 45 for run in runs)


def test_counters_tell_when_the_first_and_the_last_call_were_broken(
    rules: Rules, patient: Patient, d1: Path
) -> None:
    rules.set(Rule(directory=d1, calls=SYNC, errno=errno.EIO, after=1))
    before = rules.counters()[0]
    spared, first, last = (patient.order("fsync", d1).outcome() for _ in range(3))
    rules.control.clear()

    after = rules.counters()[0]

    assert (before.seen, before.first_ns, before.last_ns) == (0, None, None)
    assert (after.seen, after.broken) == (3, 2)
    assert after.first_ns is not None
    assert after.last_ns is not None
    assert spared.ended_ns <= first.begun_ns <= after.first_ns <= first.ended_ns
    assert last.begun_ns <= after.last_ns <= last.ended_ns


def test_a_directory_may_be_named_by_a_link_or_relative_to_the_current_folder(
    rules: Rules, patient: Patient, d1: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(d1.parent)

    rules.set(Rule(directory=Path(f"{d1.name}-link"), calls=SYNC, errno=errno.EIO))

    assert rules.control.in_force[0].rule.directory == d1
    assert patient.error("fsync", d1) == errno.EIO


def test_a_rule_may_be_about_a_folder_inside_of_a_directory(
    rules: Rules, patient: Patient, d1: Path
) -> None:
    rules.set(Rule(directory=d1 / "folder-0", errno=errno.EIO))

    assert patient.error("fsync", d1) == 0
    assert rules.counters()[0].seen == 0


def test_a_control_file_is_known_by_who_loaded_it(rules: Rules, patient: Patient, d1: Path) -> None:
    # setpriv loads the library too, and keeps it for the victim, which answers once it runs.
    assert patient.error("fsync", d1) == 0
    assert rules.control.attached == (2 if os.geteuid() == 0 else 1)


def test_reserved_counters_are_given_to_nobody_else(rules: Rules, d1: Path) -> None:
    """Two faults may be planned before the rule of either is in force."""
    control, rule = rules.control, Rule(directory=d1, calls=SYNC, errno=errno.EIO)
    first, second = control.reserve_counter(), Control.open(control.path).reserve_counter()

    assert first != second
    assert control.impose(rule) not in (first, second)
    assert control.impose(rule, first) == first


def test_sixteen_threads_meet_only_the_rules_of_a_directory_while_they_change(
    rules: Rules, patient: Patient, d1: Path, d10: Path
) -> None:
    third = patient.directory(f"{d1.name}-third")
    here = [Rule(directory=d1, calls=WRITE, errno=errno.EIO)]
    beside = [Rule(directory=d10, calls=WRITE | STAT, errno=errno.ENOSPC)]
    both = [*beside, Rule(directory=d1, calls=STAT, errno=errno.EIO, every=2), *here]
    hammered = [str(d1), str(d10), str(third)]
    hammer = patient.order("hammer", d1, rounds=2000, directories=hammered)

    while hammer.answer.empty():
        for wanted in (here, beside, both, []):
            rules.set(*wanted)

    assert hammer.answered()["found"] == {
        str(d1): [0, errno.EIO],
        str(d10): [0, errno.ENOSPC],
        str(third): [0],
    }


def test_children_inherit_the_rules(rules: Rules, folder: Path) -> None:
    directory = folder / "of-a-child"
    directory.mkdir()
    rules.set(Rule(directory=directory, calls=CREATE, errno=errno.EROFS))

    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -c 'import os; os.mkdir(\"{directory}/new\")'"],
        env={**os.environ, **rules.control.environment()},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )

    assert f"[Errno {errno.EROFS}]" in done.stderr
    assert not (directory / "new").exists()


@pytest.mark.parametrize("content", [None, b"", b"JBODFLT1", bytes(20544)])
def test_a_process_says_that_its_control_file_is_unusable_and_runs_without(
    folder: Path, tmp_path: Path, rules: Rules, content: bytes | None
) -> None:
    path = tmp_path / "no-control-file"
    if content is not None:
        path.write_bytes(content)

    done = subprocess.run(
        ["cat", "/dev/null"],
        env={**os.environ, **rules.control.environment(), "JBODLAB_FAULT_RULES": str(path)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )

    assert done.returncode == 0
    assert done.stderr == (
        f"jbodlab: no faults can be injected: {path} is not a usable control file\n"
    )

from __future__ import annotations

import errno
import math
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fault_injection.errors import FaultError
from fault_injection.preload import CallClass, Control, Counters, Rule, rules
from fault_injection.preload.rules import ArmedRule

D1 = Path("/disks/d1")

any_rule = st.builds(
    Rule,
    directory=st.sampled_from([D1, Path("/disks/ä"), Path("/" + "d" * 374)]),
    calls=st.integers(1, 1023).map(CallClass),
    errno=st.sampled_from([errno.EIO, errno.ENOSPC, errno.EROFS]),
    delay_ms=st.integers(0, 600_000),
    jitter_ms=st.integers(0, 600_000),
    hang_s=st.integers(0, 600),
    name=st.sampled_from(["*", "*.log", "leader-epoch-checkpoint", "?" * 47]),
    percent=st.sampled_from([0, 0.0001, 12.5, 100]),
    seed=st.integers(0, 2**64 - 1),
    after=st.integers(0, 2**64 - 1),
    every=st.integers(1, 2**32 - 1),
    limit=st.none() | st.integers(1, 2**64 - 1),
)
any_armed = st.builds(
    ArmedRule,
    rule=any_rule,
    counter=st.integers(0, 63),
    hang_until_ns=st.integers(0, 2**64 - 1),
    until_ns=st.integers(0, 2**64 - 1),
)


# The machine may be busy, which says nothing about the strategy.
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(armed=st.lists(any_armed, max_size=rules.RULES_MAX))
def test_a_bank_is_read_as_it_was_written(armed: list[ArmedRule]) -> None:
    bank = rules.encode_bank(armed)

    assert len(bank) == rules.BANK_SIZE
    assert rules.decode_bank(bank) == armed


def test_the_bytes_of_a_rule() -> None:
    rule = Rule(
        directory=D1,
        calls=CallClass.SYNC | CallClass.WRITE,
        errno=errno.EIO,
        delay_ms=1.5,
        jitter_ms=2,
        hang_s=3,
        name="*.log",
        percent=25,
        seed=4,
        after=5,
        every=6,
        limit=7,
    )

    data = rules.encode_bank([rules.arm(rule, 8, now_ns=1_000, length_s=4)])

    numbers = [24, 5, 1_500_000, 2_000_000, 3_000_001_000, 3_000_000_000, 5, 7, 4, 6, 250_000, 8, 9]
    assert list(struct.unpack_from("=IiQQQQQQQIIII", data)) == numbers
    assert data[80:128] == b"*.log".ljust(48, b"\0")
    assert data[128:136] == (4_000_001_000).to_bytes(8, "little")
    assert data[136:512] == b"/disks/d1".ljust(376, b"\0")
    assert data[512:] == bytes(rules.BANK_SIZE - 512)


def test_the_state_names_the_classes_of_all_rules_and_grows_with_every_change() -> None:
    armed = [
        rules.arm(Rule(directory=D1, calls=CallClass.SYNC, errno=1), 0, 0),
        rules.arm(Rule(directory=D1, calls=CallClass.READ, errno=1), 1, 0),
    ]

    state = rules.encode_state(5, armed)

    assert state & 0xFFFF == CallClass.SYNC | CallClass.READ
    assert rules.generation_of(state) == 5
    assert rules.encode_state(6, []) > state
    assert rules.encode_state(6, []) & 0xFFFF == 0


def test_counters_of_a_rule_that_broke_nothing_name_no_time() -> None:
    data = bytes([7]) + bytes(rules.COUNTER_SIZE - 1)

    assert rules.decode_counters(data) == Counters(seen=7, broken=0, first_ns=None, last_ns=None)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"calls": CallClass(0)}, "invalid value 0 for calls of a rule: 1 to 1023"),
        ({"errno": -5}, "invalid value -5 for errno of a rule: 0 to 4095"),
        ({"delay_ms": -1}, "invalid value -1 for delay_ms of a rule: 0 to 600000"),
        ({"delay_ms": math.nan}, "invalid value nan for delay_ms of a rule: 0 to 600000"),
        ({"jitter_ms": 600_001}, "invalid value 600001 for jitter_ms of a rule: 0 to 600000"),
        ({"hang_s": 601}, "invalid value 601 for hang_s of a rule: 0 to 600"),
        ({"percent": 101}, "invalid value 101 for percent of a rule: 0 to 100"),
        ({"every": 0}, "invalid value 0 for every of a rule: 1 to 4294967295"),
        ({"limit": 0}, "invalid value 0 for limit of a rule: 1 to 18446744073709551615"),
        ({"errno": 0}, "a rule needs an errno, delay_ms, jitter_ms or hang_s"),
        ({"name": ""}, "invalid name '' of a rule: 1 to 47 bytes without a slash"),
        ({"name": "a/b"}, "invalid name 'a/b' of a rule: 1 to 47 bytes without a slash"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(FaultError) as refused:
        Rule(**{"directory": D1, "errno": errno.EIO, **values})

    assert str(refused.value) == message


@pytest.fixture
def control(tmp_path: Path) -> Control:
    return Control.create(tmp_path / "faults")


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (
            [Rule(directory=Path("/"), errno=5)],
            "/ is the root of the file system, it is never broken",
        ),
        ([Rule(directory=D1, errno=5, after=n) for n in range(17)], "17 rules at once, at most 16"),
        ([Rule(directory=Path("/" + "d" * 375), errno=5)], "is longer than 375 bytes"),
    ],
)
def test_rules_that_cannot_be_imposed_change_nothing(
    control: Control, wanted: list[Rule], message: str
) -> None:
    for rule in wanted[:-1]:
        control.impose(rule)

    with pytest.raises(FaultError, match=message):
        control.impose(wanted[-1])

    found = Control.open(control.path).in_force
    assert control.in_force == found
    assert [armed.rule for armed in found] == wanted[:-1]


def test_a_rule_goes_on_while_others_come(control: Control) -> None:
    counter = control.impose(Rule(directory=D1, hang_s=60))
    before = control.in_force

    other = control.impose(Rule(directory=D1, errno=errno.EIO))

    assert control.in_force[0] == before[0]
    assert other != counter


def test_a_control_file_is_never_overwritten(control: Control) -> None:
    with pytest.raises(FaultError, match=r"cannot make the control file .*: File exists"):
        Control.create(control.path)


@pytest.mark.parametrize("content", [b"", b"JBODFLT1", bytes(rules.FILE_SIZE)])
def test_only_a_control_file_is_taken_over(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)

    with pytest.raises(FaultError, match="other is not a file of rules for the preloaded library"):
        Control.open(path)
    with pytest.raises(FaultError, match=r"cannot open the control file .*: No such file"):
        Control.open(tmp_path / "missing")

"""What the tools say of groups, quotas and settings."""

from __future__ import annotations

import pytest

from admin_tool.config_actions.alter import read_quotas, read_settings
from admin_tool.config_actions.describe import described, quota_line
from admin_tool.errors import AdminError, RequestError, UsageError
from admin_tool.get_offsets import OPTIONS, read_time
from admin_tool.group_actions import delete, delete_offsets, description, listing
from admin_tool.options import parse
from admin_tool.partition_offsets import partition_filter
from admin_tool.requests.configs import ConfigEntry
from admin_tool.requests.group_offsets import CommittedOffset
from admin_tool.requests.groups import GroupDescription, GroupListing, GroupMember
from jbodlab.error_code import ErrorCode
from jbodlab.ids import TopicPartition

A0, A1, A2 = (TopicPartition("a", index) for index in range(3))


def member(name: str, *partitions: TopicPartition, **more: object) -> GroupMember:
    return GroupMember(
        member_id=name,
        client_id="c",
        host="/h",
        assignment=partitions,
        **{"instance_id": None} | more,  # type: ignore[arg-type]
    )


def group(*members: GroupMember, state: str = "Stable", **more: object) -> GroupDescription:
    return GroupDescription(
        group_id="g",
        coordinator=2,
        state=state,
        assignor="range",
        members=members,
        **more,  # type: ignore[arg-type]
    )


def words(lines: list[str]) -> list[list[str]]:
    return [line.split() for line in lines]


def test_every_partition_is_a_row_and_the_idle_member_too() -> None:
    described_group = group(member("idle"), member("busy", A1, A0))
    committed = {A0: CommittedOffset(offset=4, leader_epoch=3), A2: CommittedOffset(offset=1)}

    rows = description.offset_rows(described_group, committed, {A0: 10, A1: 7})
    table = words(description.offset_table("g", rows, verbose=True))

    assert table[1:] == [
        ["g", "a", "0", "3", "4", "10", "6", "busy", "/h", "c"],
        ["g", "a", "1", "-", "-", "7", "-", "busy", "/h", "c"],
        ["g", "-", "-", "-", "-", "-", "-", "idle", "/h", "c"],
        ["g", "a", "2", "-", "1", "-", "-", "-", "-", "-"],
    ]
    assert words(description.offset_table("g", rows, verbose=False))[1] == (
        ["g", "a", "0", "4", "10", "6", "busy", "/h", "c"]
    )


def test_members_show_epochs_and_who_is_not_upgraded_yet() -> None:
    old = member("old", A0, target=(A0, A1), epoch=3, is_upgraded=False, instance_id="i")
    new = member("new", epoch=4, target=(), is_upgraded=True)

    table = words(description.member_table(group(old, new, target_epoch=5), verbose=True))

    assert table[0][2] == "GROUP-INSTANCE-ID"
    assert table[0][-1] == "UPGRADED"
    assert table[1] == ["g", "old", "i", "/h", "c", "1", "3", "a:0", "5", "a:0,1", "false"]
    plain = words(description.member_table(group(member("m", A0)), verbose=True))
    assert plain[1] == ["g", "m", "/h", "c", "1", "-", "a:0", "-", "-"]


def test_the_state_names_the_coordinator() -> None:
    found = group(state="Empty", epoch=7, target_epoch=6)
    line = description.state_table(found, "h:9092", verbose=True)[1]
    assert line.split() == ["g", "h:9092", "(2)", "range", "Empty", "7", "6", "0"]
    assert description.remark(found) == "Consumer group 'g' has no active members."
    assert description.remark(group()) is None
    assert description.remark(group(state="Assigning")) == (
        "Warning: Consumer group 'g' is rebalancing."
    )


def test_lists_have_columns_only_when_asked() -> None:
    found = [GroupListing(group_id="g", protocol_type="consumer", state="Stable", type="Classic")]
    assert listing.listing(found, with_type=False, with_state=False) == ["g"]
    table = listing.listing(found, with_type=True, with_state=True)
    assert words(table) == [["GROUP", "TYPE", "STATE"], ["g", "Classic", "Stable"]]
    assert listing.read_names("stable, preparing-rebalance", listing.STATES, "state") == {
        "Stable",
        "PreparingRebalance",
    }
    with pytest.raises(UsageError, match="Invalid type list 'share'"):
        listing.read_names("share", listing.TYPES, "type")


def test_a_group_that_stays_is_told_beside_those_that_are_gone() -> None:
    refused = RequestError(ErrorCode.NON_EMPTY_GROUP)
    assert delete.outcome({"g": None, "h": None}) == [
        "Deletion of requested consumer groups ('g', 'h') was successful."
    ]
    assert delete.outcome({"g": refused, "h": None})[2:] == [
        "* Group 'g' could not be deleted due to: NON_EMPTY_GROUP",
        "",
        "These consumer groups were deleted successfully: 'h'",
    ]
    assert words(delete_offsets.table({A1: refused, A0: None}))[1:] == [
        ["a", "0", "Successful"],
        ["a", "1", "Error:", "NON_EMPTY_GROUP"],
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", [A0, A1, A2]),
        ("--topic a --partitions 0,2", [A0, A2]),
        ("--topic b|a", [A0, A1, A2]),
        ("--topic-partitions a:1", [A1]),
        ("--topic-partitions a:1-", [A1, A2]),
        ("--topic-partitions b,:0-2", [A0, A1]),
    ],
)
def test_partitions_are_chosen_by_patterns_and_ranges(
    line: str, expected: list[TopicPartition]
) -> None:
    is_wanted = partition_filter(parse(line.split(), OPTIONS))
    assert [one for one in (A0, A1, A2) if is_wanted(one)] == expected


def test_times_have_names_and_numbers() -> None:
    for text, expected in (("latest", -1), ("-2", -2), ("max-timestamp", -3), ("17", 17)):
        assert read_time(text) == expected
    for wrong in ("now", "-7", ""):
        with pytest.raises(UsageError, match="Malformed time argument"):
            read_time(wrong)
    with pytest.raises(AdminError, match="--partitions expects"):
        partition_filter(parse(["--partitions", "x"], OPTIONS))


def test_settings_with_commas_stand_in_brackets() -> None:
    assert read_settings("a=1,b=[x:1,y:2], c= 3 ,d=") == {
        "a": "1",
        "b": "x:1,y:2",
        "c": "3",
        "d": "",
    }
    with pytest.raises(UsageError, match="Invalid entity config 'a'"):
        read_settings("a")
    with pytest.raises(UsageError, match="Cannot parse quota configuration value for k: x"):
        read_quotas({"k": "x"})


def test_settings_show_where_they_come_from() -> None:
    own = ConfigEntry(
        name="b", value="1", source=1, synonyms=(("1", 1), ("2", 5)), synonym_names=("b", "log.b")
    )
    default = ConfigEntry(name="a", value=None, source=5, is_sensitive=True)

    assert described("topics", "t", (own, default), with_all=False) == [
        "Dynamic configs for topic t are:",
        "  b=1 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:b=1, DEFAULT_CONFIG:log.b=2}",
    ]
    assert described("topics", "t", (own, default), with_all=True)[1] == (
        "  a=null sensitive=true synonyms={}"
    )
    assert described("brokers", "", (own,), with_all=False) == [
        "Default configs for brokers in the cluster are:"
    ]


def test_quotas_name_their_entity() -> None:
    assert quota_line({"client-id": None, "user": "u"}, {"b": 2.5, "a": 1e8}) == (
        "Quota configs for user-principal 'u', the default client-id are a=1.0E8, b=2.5"
    )

"""jbod-consumer-groups --reset-offsets: what the offsets would be, and setting them.

A group is only touched while it has no members: theirs would be lost, or commit over the new ones.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from admin_tool.errors import AdminError, RequestError
from admin_tool.group_actions import reset_plan
from admin_tool.group_actions.reset_plan import Offsets, Plan
from admin_tool.group_actions.selection import expand, groups_of, read_topic
from admin_tool.options import Parsed, timeout_ms
from admin_tool.requests import offsets
from admin_tool.requests.connection import Connection, connected
from admin_tool.requests.group_offsets import commit_offsets, fetch_offsets
from admin_tool.requests.groups import DEAD, EMPTY, GroupDescription, describe_groups
from admin_tool.requests.offsets import list_offsets
from admin_tool.requests.topics import describe_topics
from jbodlab.error_code import ErrorCode
from jbodlab.ids import TopicPartition

_MS_PER_S = 1000


def run(options: Parsed) -> int:
    """Show new offsets, and set them if asked to; returns the exit code: 1 if a group failed."""
    reset = Reset(options)
    plans: dict[str, Offsets] = {}
    code = 0
    with connected(options) as connection:
        groups = groups_of(connection, options)
        reset.read_file(groups)
        described = describe_groups(connection, groups, timeout_ms(options))
        for group in groups:
            try:
                check_inactive(group, described[group])
                plan = reset.plan(connection, group)
                if options.has("execute"):
                    commit_offsets(connection, group, plan.offsets, timeout_ms(options))
                plans[group] = plan.offsets
                for line in plan.warnings:
                    print(f"\n{line}", file=sys.stderr, flush=True)
            except AdminError as error:
                code = 1
                print(f"\nError: {error}", file=sys.stderr, flush=True)
    if options.has("export"):
        with_group = options.has("all-groups") or len(groups) > 1
        shown = reset_plan.export_lines(plans, with_group=with_group)
        print("".join(f"{line}\n" for line in shown), end="")
    elif any(plans.values()):
        print("\n" + "\n".join(reset_plan.table(plans)))
    return code


def check_inactive(group: str, described: GroupDescription | RequestError) -> None:
    """Insist that a group has no members; one that does not exist has none.

    Raises:
        AdminError: it has, or its coordinator does not say.
    """
    if isinstance(described, RequestError):
        if described.code == ErrorCode.GROUP_ID_NOT_FOUND:
            return
        raise AdminError(f"Consumer group '{group}': {described}")
    if described.state not in (EMPTY, DEAD):
        raise AdminError(
            f"Assignments can only be reset if the group '{group}' is inactive, "
            f"but the current state is {described.state}."
        )


class Reset:
    """The scenario of a command line."""

    def __init__(self, options: Parsed) -> None:
        """Read all that can be wrong before the cluster is asked."""
        self._options = options
        self._wait_ms = timeout_ms(options)
        self._topics = [read_topic(text) for text in options.texts("topic")]
        self._file: Mapping[str, Offsets] = {}
        self._timestamp: int | None = None
        if options.has("to-datetime"):
            self._timestamp = reset_plan.read_datetime(options.required("to-datetime"))
        if options.has("by-duration"):
            back = reset_plan.read_duration(options.required("by-duration"))
            self._timestamp = int(time.time() * _MS_PER_S) - back

    def read_file(self, groups: list[str]) -> None:
        """Read the file of `--from-file`, if there is one.

        Raises:
            AdminError: it cannot be read.
        """
        path = self._options.text("from-file")
        if path is None:
            return
        try:
            text = Path(path).read_text("utf-8")
        except OSError as error:
            raise AdminError(f"cannot read {path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise AdminError(f"cannot read {path}: it is no text") from error
        self._file = reset_plan.read_file(text, groups)

    def plan(self, connection: Connection, group: str) -> Plan:
        """Return the new offsets of a group.

        Raises:
            AdminError: a partition does not exist or has no leader, or the scenario does not fit.
        """
        options = self._options
        committed: Offsets = {}
        if options.has("all-topics") or options.has("shift-by") or options.has("to-current"):
            committed = self._committed(connection, group)
        partitions = self._partitions(connection, group, committed)
        ends = self._ask(connection, partitions, offsets.LATEST)
        if options.has("to-latest"):
            return Plan(offsets=ends)
        if options.has("to-current"):
            return reset_plan.current(partitions, committed, ends)
        if self._timestamp is not None:
            found = self._ask(connection, partitions, self._timestamp)
            return reset_plan.at_time(found, ends)
        starts = self._ask(connection, partitions, offsets.EARLIEST)
        if options.has("to-earliest"):
            return Plan(offsets=starts)
        by = options.number("shift-by")
        if by is not None:
            return reset_plan.shifted(partitions, committed, by, starts, ends)
        if options.has("from-file"):
            its_own = self._file[group]
            return reset_plan.within({one: its_own[one] for one in partitions}, starts, ends)
        offset = options.number("to-offset")
        assert offset is not None
        return reset_plan.within(dict.fromkeys(partitions, offset), starts, ends)

    def _committed(self, connection: Connection, group: str) -> Offsets:
        found = fetch_offsets(connection, [group], self._wait_ms)[group]
        if isinstance(found, RequestError):
            raise found
        return {one: known.offset for one, known in found.items()}

    def _partitions(
        self, connection: Connection, group: str, committed: Offsets
    ) -> list[TopicPartition]:
        """Return the partitions to reset, all of which exist and have a leader."""
        if self._options.has("from-file"):
            if group not in self._file:
                raise AdminError(f"No reset plan for group {group} found")
            chosen: Iterable[TopicPartition] = self._file[group]
            if self._topics:
                named = dict(self._topics)
                chosen = [
                    one
                    for one in chosen
                    if one.topic in named
                    and ((indexes := named[one.topic]) is None or one.partition in indexes)
                ]
        elif self._options.has("all-topics"):
            chosen = committed
        else:
            known = describe_topics(connection, {topic for topic, _ in self._topics})
            counts = {
                name: [one.index for one in topic.partitions] for name, topic in known.items()
            }
            chosen = expand(self._topics, counts)
        partitions = sorted(chosen)
        self._check_leaders(connection, partitions)
        return partitions

    def _check_leaders(self, connection: Connection, partitions: list[TopicPartition]) -> None:
        topics = describe_topics(connection, {one.topic for one in partitions})
        states = {
            one: topics[one.topic].partition(one.partition) if one.topic in topics else None
            for one in partitions
        }
        gone = ",".join(str(one) for one, state in states.items() if state is None)
        if gone:
            raise AdminError(f'The partitions "{gone}" do not exist')
        headless = ",".join(
            str(one) for one, state in states.items() if state is not None and state.leader is None
        )
        if headless:
            raise AdminError(f'The partitions "{headless}" have no leader')

    def _ask(
        self, connection: Connection, partitions: list[TopicPartition], timestamp: int
    ) -> dict[TopicPartition, int]:
        found = {}
        asked = dict.fromkeys(partitions, timestamp)
        for one, answer in list_offsets(connection, asked, self._wait_ms).items():
            if isinstance(answer, RequestError):
                raise AdminError(f"the offset of {one} is not to be had: {answer}")
            found[one] = answer.offset
        return found

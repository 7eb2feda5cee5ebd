"""Runs the text scenarios of `tests/scenarios`.

A scenario is a list of commands, indented below each what the controller answers and writes; lines
that begin with `#` are comments. A line that begins with `==` is the title of a story: each story
of a file begins where the commands above the first title ended.

    level METADATA_VERSION
    cluster BROKER=DIR,DIR ...                           registers and unfences, with no output
    given COMMAND                                        the same without its output
    register BROKER DIR,DIR [same] [previous=EPOCH] [clean]
                     same: keep the incarnation; clean: previous is the epoch that it has
    heartbeat BROKER [offset=N] [fence] [shutdown] [offline=DIR,DIR]
              [slow=DIR,DIR] [full=DIR,DIR] [tolerated=DIR,DIR] [cordoned=DIR,DIR]
    create TOPIC REPLICAS ... [KEY=VALUE ...]            REPLICAS of each partition: 1,2
    make [validate] TOPIC [partitions=N] [factor=N] [INDEX:REPLICAS ...] [KEY=VALUE] [+ TOPIC ...]
                                                         by a request, with what it says
    grow [validate] TOPIC COUNT [REPLICAS ...]
    delete TOPIC ...                                     names, or `id:NAME`
    config TOPIC KEY=VALUE
    alter topic=NAME|broker=ID|cluster KEY[=VALUE]       by a request; without a value it is deleted
    feature NAME=LEVEL
    assign BROKER TOPIC-INDEX=DIR ...
    isr BROKER TOPIC-INDEX MEMBER,MEMBER
    elect preferred|unclean [TOPIC-INDEX ...]
    balance                                              the periodic preferred elections
    elect-uncleanly                                      the periodic unclean elections
    unregister BROKER
    reassign TOPIC-INDEX=BROKER,BROKER|cancel ... [same-factor]
    reassignments                                        all that are under way
    change TOPIC-INDEX [replicas=..] [removing=..] [adding=..] [isr=..] [leader=N] [dirs=..]
                                                         by a record that no decision wrote
    wait MS                                              then the session timer comes round
    show TOPIC-INDEX

`JBODLAB_REWRITE_SCENARIOS=1` writes what happens in place of what is expected.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any

from controller.decide.brokers.brokers import fence_stale_broker
from controller.decide.brokers.registration import unregister_broker
from controller.decide.partitions.added_partitions import create_partitions
from controller.decide.partitions.elections import (
    balance_preferred_leaders,
    elect_leaders,
    elect_unclean_leaders,
)
from controller.decide.partitions.reassignments import (
    alter_partition_reassignments,
    list_partition_reassignments,
)
from controller.decide.partitions.topics import create_topics, delete_topics
from controller.decide.settings.configs import Operation, incremental_alter_configs
from controller.decide.settings.feature_updates import SAFE_DOWNGRADE, UPGRADE, update_features
from jbodlab.controller_api.requests import (
    AlterPartitionReassignmentsRequest,
    ConfigChange,
    ConfigResource,
    CreatedTopic,
    CreatePartitionsRequest,
    CreatePartitionsResult,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    FeatureUpdate,
    IncrementalAlterConfigsRequest,
    ListPartitionReassignmentsRequest,
    NewTopic,
    PartitionsToAdd,
    PartitionToReassign,
    TopicToDelete,
    UnregisterBrokerRequest,
    UpdateFeaturesRequest,
)
from jbodlab.metadata.image.metadata_image import EMPTY
from jbodlab.metadata.records.cluster_records import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from jbodlab.metadata.records.config_records import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    ConfigRecord,
    FeatureLevelRecord,
)
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.topic_records import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import BrokerId, TopicId
from tests.builders import PureController, brokers, directories, name_of, named_uuid


def run_scenario(text: str) -> str:
    """Return a scenario with what really happens below each command."""
    runner = _Runner()
    output = []
    for line in text.strip().split("\n"):
        if line.startswith("    "):
            continue
        output.append(line)
        if line.startswith("=="):
            runner.begin_story()
        elif line and not line.startswith("#"):
            output += [f"    {each}" for each in runner.run(line)]
    return "\n".join(output) + "\n"


class _Runner:
    def __init__(self) -> None:
        self.controller = PureController()
        self.beginning: PureController | None = None
        self.commands: dict[str, Callable[[list[str]], list[str]]] = {
            "level": self._level,
            "cluster": self._cluster,
            "given": self._given,
            "register": self._register,
            "heartbeat": self._heartbeat,
            "create": self._create,
            "make": self._make,
            "grow": self._grow,
            "delete": self._delete,
            "config": self._config,
            "alter": self._alter,
            "feature": self._feature,
            "assign": self._assign,
            "isr": self._isr,
            "elect": self._elect,
            "balance": self._balance,
            "elect-uncleanly": self._elect_uncleanly,
            "unregister": self._unregister,
            "reassign": self._reassign,
            "reassignments": self._reassignments,
            "change": self._change,
            "wait": self._wait,
            "show": self._show,
        }

    def begin_story(self) -> None:
        if self.beginning is None:
            self.beginning = self.controller
        self.controller = copy(self.beginning)

    def run(self, command: str) -> list[str]:
        verb, *words = command.split()
        return self.commands[verb](words)

    def _level(self, words: list[str]) -> list[str]:
        assert self.controller.state.image.cluster == EMPTY.cluster
        # Offsets begin where a formatted cluster's first broker finds them, roughly.
        self.controller = PureController(level=int(words[0]), first_offset=9)
        return []

    def _cluster(self, words: list[str]) -> list[str]:
        for word in words:
            broker, _, dirs = word.partition("=")
            self.controller.add_broker(int(broker), dirs)
        return []

    def _given(self, words: list[str]) -> list[str]:
        self.run(" ".join(words))
        return []

    def _register(self, words: list[str]) -> list[str]:
        broker, dirs, *options = words
        fields: dict[str, object] = {}
        for option in options:
            if option == "same":
                known = self.controller.state.image.cluster.brokers[BrokerId(int(broker))]
                fields["incarnation_id"] = known.incarnation_id
            elif option == "clean":
                fields["previous_broker_epoch"] = self.controller.epoch(int(broker))
            else:
                fields["previous_broker_epoch"] = int(option.removeprefix("previous="))
        answer = self.controller.register(int(broker), dirs, **fields)
        if answer.error_code != ErrorCode.NONE:
            return [*self._records(), f"answer {answer.error_code.name}"]
        return [*self._records(), f"answer epoch {answer.broker_epoch}"]

    def _heartbeat(self, words: list[str]) -> list[str]:
        broker, *options = words
        degraded = directories("")
        fields: dict[str, object] = {}
        for option in options:
            key, _, value = option.partition("=")
            match key:
                case "offset":
                    fields["current_metadata_offset"] = int(value)
                case "fence":
                    fields["want_fence"] = True
                case "shutdown":
                    fields["want_shut_down"] = True
                case "offline":
                    fields["offline_log_dirs"] = value
                case "slow":
                    degraded += directories(value)
                case "full":
                    degraded += directories(value)
                    fields["full_log_dirs"] = directories(value)
                case "tolerated" | "cordoned":
                    fields[f"{key}_log_dirs"] = directories(value)
                case _:
                    raise AssertionError(option)
        answer = self.controller.heartbeat(int(broker), degraded_log_dirs=degraded, **fields)
        if answer.error_code != ErrorCode.NONE:
            return [*self._records(), f"answer {answer.error_code.name}"]
        flags = [
            name
            for name, is_set in (
                ("caught up", answer.is_caught_up),
                ("fenced", answer.is_fenced),
                ("shut down", answer.should_shut_down),
            )
            if is_set
        ]
        return [*self._records(), f"answer {', '.join(flags)}".rstrip()]

    def _create(self, words: list[str]) -> list[str]:
        name, *options = words
        assignments = [numbers(word) for word in options if "=" not in word]
        configs = tuple(tuple(word.split("=")) for word in options if "=" in word)
        answer = self.controller.create(name, *assignments, configs=configs)
        return [*self._records(), f"answer {answer.topics[0].error_code.name}"]

    def _make(self, words: list[str]) -> list[str]:
        validate_only = words[0] == "validate"
        topics, rest = [], words[validate_only:]
        while rest:
            end = rest.index("+") if "+" in rest else len(rest)
            topics.append(_new_topic(*rest[:end]))
            rest = rest[end + 1 :]
        ids = iter([named_uuid(topic.name) for topic in topics] * 2)
        decide = partial(create_topics, randomness=self.controller.random, new_id=lambda: next(ids))
        request = CreateTopicsRequest(topics=tuple(topics), validate_only=validate_only)
        try:
            answer = self.controller.ask(decide, request)
        except KafkaError as error:
            return [f"answer {error.code.name} {error.message}"]
        return [*self._records(), *map(_result, answer.topics)]

    def _grow(self, words: list[str]) -> list[str]:
        validate_only = words[0] == "validate"
        name, count, *replicas = words[validate_only:]
        given = tuple(brokers(*numbers(each)) for each in replicas) or None
        topic = PartitionsToAdd(name=name, count=int(count), assignments=given)
        decide = partial(create_partitions, randomness=self.controller.random)
        request = CreatePartitionsRequest(topics=(topic,), validate_only=validate_only)
        answer = self.controller.ask(decide, request)
        return [*self._records(), *map(_result, answer.results)]

    def _delete(self, words: list[str]) -> list[str]:
        topics = tuple(
            TopicToDelete(topic_id=TopicId(named_uuid(word.removeprefix("id:"))))
            if word.startswith("id:")
            else TopicToDelete(name=word)
            for word in words
        )
        answer = self.controller.ask(delete_topics, DeleteTopicsRequest(topics=topics))
        codes = " ".join(each.error_code.name for each in answer.responses)
        return [*self._records(), f"answer {codes}"]

    def _config(self, words: list[str]) -> list[str]:
        topic, setting = words
        name, _, value = setting.partition("=")
        self.controller.replay(
            ConfigRecord(resource_type=2, resource_name=topic, name=name, value=value)
        )
        return []

    def _alter(self, words: list[str]) -> list[str]:
        where, setting = words
        kind, _, name = where.partition("=")
        key, is_set, value = setting.partition("=")
        resource = ConfigResource(
            resource_type=TOPIC_RESOURCE if kind == "topic" else BROKER_RESOURCE,
            resource_name=name,
            configs=(
                ConfigChange(
                    name=key,
                    value=value if is_set else None,
                    config_operation=Operation.SET if is_set else Operation.DELETE,
                ),
            ),
        )
        request = IncrementalAlterConfigsRequest(resources=(resource,))
        answer = self.controller.ask(incremental_alter_configs, request).responses[0]
        return [
            *self._records(),
            f"answer {answer.error_code.name} {answer.error_message}".rstrip(),
        ]

    def _feature(self, words: list[str]) -> list[str]:
        name, _, level = words[0].partition("=")
        before = self.controller.state.image.features.levels.get(name, 0)
        kind = UPGRADE if int(level) >= before else SAFE_DOWNGRADE
        update = FeatureUpdate(feature=name, max_version_level=int(level), upgrade_type=kind)
        try:
            self.controller.ask(update_features, UpdateFeaturesRequest(feature_updates=(update,)))
        except KafkaError as error:
            return [f"answer {error.code.name} {error.message}"]
        return [*self._records(), "answer NONE"]

    def _assign(self, words: list[str]) -> list[str]:
        broker, *assignments = words
        parsed = []
        for assignment in assignments:
            where, _, name = assignment.partition("=")
            parsed.append((*partition_of(where), name))
        answer = self.controller.assign_partitions(int(broker), *parsed)
        codes = [code.name for code in answer.results] or [answer.error_code.name]
        return [*self._records(), f"answer {' '.join(codes)}"]

    def _isr(self, words: list[str]) -> list[str]:
        broker, where, members = words
        topic, index = partition_of(where)
        answer = self.controller.alter_isr(int(broker), topic, numbers(members), partition=index)
        codes = [result.error_code.name for result in answer.results]
        return [*self._records(), f"answer {' '.join(codes or [answer.error_code.name])}"]

    def _elect(self, words: list[str]) -> list[str]:
        kind, *where = words
        pairs = tuple(map(partition_of, where))
        request = ElectLeadersRequest(
            election_type=("preferred", "unclean").index(kind), topic_partitions=pairs or None
        )
        answer = self.controller.ask(elect_leaders, request)
        results = [
            f"answer {each.topic}-{each.partition} {each.error_code.name} {each.error_message}"
            for each in answer.results
        ]
        return [*self._records(), *map(str.rstrip, results)]

    def _balance(self, words: list[str]) -> list[str]:
        assert not words
        self.controller.run(balance_preferred_leaders)
        return self._records()

    def _elect_uncleanly(self, words: list[str]) -> list[str]:
        assert not words
        self.controller.run(elect_unclean_leaders)
        return self._records()

    def _unregister(self, words: list[str]) -> list[str]:
        request = UnregisterBrokerRequest(broker_id=BrokerId(int(words[0])))
        answer = self.controller.ask(unregister_broker, request)
        return [*self._records(), f"answer {answer.error_code.name}"]

    def _reassign(self, words: list[str]) -> list[str]:
        wishes = []
        for word in words:
            if word == "same-factor":
                continue
            where, _, target = word.partition("=")
            topic, index = partition_of(where)
            wishes.append(
                PartitionToReassign(
                    topic=topic,
                    partition=index,
                    replicas=None if target == "cancel" else brokers(*numbers(target)),
                )
            )
        request = AlterPartitionReassignmentsRequest(
            partitions=tuple(wishes), allow_replication_factor_change="same-factor" not in words
        )
        answer = self.controller.ask(alter_partition_reassignments, request)
        results = [
            f"answer {each.topic}-{each.partition} {each.error_code.name} {each.error_message}"
            for each in answer.results
        ]
        return [*self._records(), *map(str.rstrip, results)]

    def _reassignments(self, words: list[str]) -> list[str]:
        assert not words
        image = self.controller.state.image
        found = list_partition_reassignments(ListPartitionReassignmentsRequest(), image)
        return [
            f"{each.topic}-{each.partition} replicas {_list(each.replicas)} "
            f"adding {_list(each.adding_replicas)} removing {_list(each.removing_replicas)}"
            for each in found.reassignments
        ]

    def _change(self, words: list[str]) -> list[str]:
        topic, index = partition_of(words[0])
        fields: dict[str, Any] = {}
        for word in words[1:]:
            key, _, value = word.partition("=")
            match key:
                case "dirs":
                    fields["directories"] = directories(value)
                case "leader":
                    fields["leader"] = BrokerId(int(value))
                case "removing" | "adding":
                    fields[f"{key}_replicas"] = brokers(*numbers(value))
                case _:
                    fields[key] = brokers(*numbers(value))
        self.controller.replay(
            PartitionChangeRecord(topic_id=TopicId(named_uuid(topic)), partition_id=index, **fields)
        )
        return []

    def _wait(self, words: list[str]) -> list[str]:
        self.controller.advance(int(words[0]))
        output = []
        while True:
            fenced = self.controller.run(fence_stale_broker)
            output += self._records()
            if fenced is None:
                return output

    def _show(self, words: list[str]) -> list[str]:
        topic, index = partition_of(words[0])
        state = self.controller.partition(topic, index)
        elr = ""
        if state.elr or state.last_known_elr:
            elr = f"elr {_list(state.elr)} lastKnownElr {_list(state.last_known_elr)} "
        return [
            f"isr {_list(state.isr)} leader {state.leader} {elr}"
            f"dirs {_list(map(name_of, state.directories))} "
            f"leader epoch {state.leader_epoch} partition epoch {state.partition_epoch}"
        ]

    def _records(self) -> list[str]:
        return [self._render(record) for record in self.controller.records]

    def _render(self, versioned: VersionedRecord) -> str:
        record, version = versioned
        name = type(record).__name__.removesuffix("Record")
        match record:
            case RegisterBrokerRecord():
                words = [
                    f"{record.broker_id} epoch {record.broker_epoch}",
                    "fenced" if record.fenced else "unfenced",
                    f"logDirs {_list(map(name_of, record.log_dirs))}",
                ]
                if record.in_controlled_shutdown:
                    words.append("inControlledShutdown")
            case BrokerRegistrationChangeRecord():
                words = [str(record.broker_id)]
                if record.fenced:
                    words.append(f"fenced {record.fenced}")
                if record.in_controlled_shutdown:
                    words.append(f"inControlledShutdown {record.in_controlled_shutdown}")
                if record.log_dirs:
                    words.append(f"logDirs {_list(map(name_of, record.log_dirs))}")
            case UnregisterBrokerRecord():
                words = [str(record.broker_id)]
            case TopicRecord():
                words = [record.name]
            case RemoveTopicRecord():
                words = [name_of(record.topic_id)]
            case ConfigRecord():
                words = [f"{record.resource_name} {record.name}={record.value}".strip()]
            case FeatureLevelRecord():
                words = [f"{record.name}={record.feature_level}"]
            case ClearElrRecord():
                words = [record.topic_name or "of all topics"]
            case PartitionRecord():
                words = [
                    f"{name_of(record.topic_id)}-{record.partition_id}",
                    f"replicas {_list(record.replicas)} isr {_list(record.isr)}",
                    f"leader {record.leader} dirs {_list(map(name_of, record.directories))}",
                ]
            case PartitionChangeRecord():
                words = [f"{name_of(record.topic_id)}-{record.partition_id}"]
                words += _changes(record)
            case _:
                raise AssertionError(f"no text for {record}")
        return f"{name} v{version} {' '.join(words)}"


def _changes(record: PartitionChangeRecord) -> list[str]:
    words = []
    if record.isr is not None:
        words.append(f"isr {_list(record.isr)}")
    if record.leader != -2:
        words.append(f"leader {record.leader}")
    for name, value in (
        ("replicas", record.replicas),
        ("removing", record.removing_replicas),
        ("adding", record.adding_replicas),
    ):
        if value is not None:
            words.append(f"{name} {_list(value)}")
    if record.eligible_leader_replicas is not None:
        words.append(f"elr {_list(record.eligible_leader_replicas)}")
    if record.last_known_elr is not None:
        words.append(f"lastKnownElr {_list(record.last_known_elr)}")
    if record.leader_recovery_state != -1:
        words.append(f"leaderRecoveryState {record.leader_recovery_state}")
    if record.directories is not None:
        words.append(f"dirs {_list(map(name_of, record.directories))}")
    return words


def _new_topic(name: str, *options: str) -> NewTopic:
    fields: dict[str, Any] = {"name": name}
    for word in options:
        key, is_config, value = word.partition("=")
        if key == "partitions":
            fields["num_partitions"] = int(value)
        elif key == "factor":
            fields["replication_factor"] = int(value)
        elif is_config:
            fields["configs"] = (*fields.get("configs", ()), (key, value))
        else:
            index, _, replicas = word.partition(":")
            assignment = (int(index), brokers(*numbers(replicas)))
            fields["assignments"] = (*fields.get("assignments", ()), assignment)
    return NewTopic(**fields)


def _result(each: CreatedTopic | CreatePartitionsResult) -> str:
    return f"answer {each.name} {each.error_code.name} {each.error_message or ''}".rstrip()


def partition_of(text: str) -> tuple[str, int]:
    topic, index = re.fullmatch(r"(.*?)-(-?\d+)", text).groups()  # type: ignore[union-attr]
    return topic, int(index)


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(",") if each)


def _list(items: object) -> str:
    return "[" + ",".join(map(str, items)) + "]"  # type: ignore[call-overload]

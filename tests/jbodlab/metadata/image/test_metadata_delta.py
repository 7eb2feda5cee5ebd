"""Replay of records on an image, and what the delta knows afterwards."""

from __future__ import annotations

from uuid import UUID

import pytest

from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import EMPTY, MetadataImage
from jbodlab.metadata.records.cluster_records import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
)
from jbodlab.metadata.records.config_records import (
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    ProducerIdsRecord,
    QuotaEntity,
    ZkMigrationStateRecord,
)
from jbodlab.metadata.records.registry import RECORD_TYPES
from jbodlab.metadata.records.schema import RawRecord, Record
from jbodlab.metadata.records.security_records import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from jbodlab.metadata.records.topic_records import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from jbodlab.vocabulary.directory_id import MIGRATING
from jbodlab.vocabulary.errors import ReplayError
from jbodlab.vocabulary.ids import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
    TopicIdPartition,
)

B1, B2 = BrokerId(1), BrokerId(2)
FOO, BAR = TopicId(UUID(int=1 << 70)), TopicId(UUID(int=1 << 71))


def partition(topic_id: TopicId, index: int, **fields: tuple[BrokerId, ...]) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=(B1, B2),
        isr=(B1, B2),
        leader=B1,
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
        **fields,  # type: ignore[arg-type]
    )


def replayed(*records: Record, image: MetadataImage = EMPTY) -> MetadataDelta:
    delta = MetadataDelta(image)
    for offset, record in enumerate(records, image.offset + 1):
        delta.replay(record, offset)
    return delta


def image_of(*records: Record, image: MetadataImage = EMPTY) -> MetadataImage:
    return replayed(*records, image=image).apply(image.offset + len(records), 1, 1000)


TWO_TOPICS = image_of(
    TopicRecord(name="foo", topic_id=FOO),
    partition(FOO, 0),
    partition(FOO, 1),
    TopicRecord(name="bar", topic_id=BAR),
    partition(BAR, 0),
)


def test_topics_are_found_by_id_and_by_name() -> None:
    topics = TWO_TOPICS.topics

    assert topics.by_name.keys() == {"foo", "bar"}
    assert topics.by_name["foo"] is topics.by_id[FOO]
    assert topics.by_id[FOO].partitions.keys() == {0, 1}
    assert topics.partition(FOO, 2) is None
    assert topics.partition(TopicId(UUID(int=9)), 0) is None
    state = topics.partition(FOO, 1)
    assert state is not None
    assert state.directories == (MIGRATING, MIGRATING)
    assert TWO_TOPICS.offset == 4


def test_old_image_stays_and_untouched_parts_are_shared() -> None:
    change = PartitionChangeRecord(partition_id=1, topic_id=FOO, leader=B2)
    old = TWO_TOPICS.topics.partition(FOO, 1)

    delta = replayed(change, image=TWO_TOPICS)
    new = delta.apply(5, 1, 2000)

    assert TWO_TOPICS.topics.partition(FOO, 1) is old
    assert new.topics.partition(FOO, 1) != old
    assert new.topics.by_id[BAR] is TWO_TOPICS.topics.by_id[BAR]
    assert new.topics.partition(FOO, 0) is TWO_TOPICS.topics.partition(FOO, 0)
    assert new.cluster is TWO_TOPICS.cluster
    assert delta.changed_partitions == {TopicIdPartition(FOO, 1): new.topics.partition(FOO, 1)}
    assert (new.offset, new.epoch, new.timestamp_ms) == (5, 1, 2000)


def test_several_changes_of_one_partition_are_merged_in_order() -> None:
    first = PartitionChangeRecord(partition_id=0, topic_id=FOO, isr=(B2,), leader=B2)
    second = PartitionChangeRecord(partition_id=0, topic_id=FOO, isr=(B2, B1))

    delta = replayed(first, second, image=TWO_TOPICS)

    (state,) = delta.changed_partitions.values()
    assert (state.leader, state.isr) == (B2, (B2, B1))
    assert (state.leader_epoch, state.partition_epoch) == (1, 2)


def test_partition_record_replaces_the_whole_state() -> None:
    record = PartitionRecord(partition_id=0, topic_id=FOO, replicas=(B2,), isr=(B2,), leader=B2)

    image = image_of(record, image=TWO_TOPICS)

    state = image.topics.partition(FOO, 0)
    assert state is not None
    assert (state.replicas, state.leader_epoch) == ((B2,), -1)


def test_removed_topic_takes_partitions_and_configs_along() -> None:
    configured = image_of(
        ConfigRecord(resource_type=2, resource_name="foo", name="a", value="1"),
        ConfigRecord(resource_type=2, resource_name="bar", name="a", value="2"),
        image=TWO_TOPICS,
    )

    delta = replayed(
        PartitionChangeRecord(partition_id=0, topic_id=FOO, leader=B2),
        RemoveTopicRecord(topic_id=FOO),
        image=configured,
    )
    image = delta.apply(9, 1, 1)

    assert delta.deleted_topics == {FOO: TWO_TOPICS.topics.by_id[FOO]}
    assert delta.changed_partitions == {}
    assert delta.changed_configs == {(2, "foo")}
    assert image.topics.by_id.keys() == {BAR}
    assert image.topics.by_name.keys() == {"bar"}
    assert image.configs.topic("foo") == {}
    assert image.configs.topic("bar") == {"a": "2"}


def test_name_of_a_removed_topic_can_be_used_again_at_once() -> None:
    again = TopicId(UUID(int=1 << 72))

    delta = replayed(
        RemoveTopicRecord(topic_id=FOO),
        TopicRecord(name="foo", topic_id=again),
        partition(again, 0),
        image=TWO_TOPICS,
    )
    image = delta.apply(9, 1, 1)

    assert image.topics.by_name["foo"].topic_id == again
    assert image.topics.by_id.keys() == {BAR, again}
    assert delta.topics.created == {again: "foo"}
    assert delta.deleted_topics.keys() == {FOO}


def test_topic_that_comes_and_goes_leaves_no_trace() -> None:
    delta = replayed(
        TopicRecord(name="foo", topic_id=FOO), partition(FOO, 0), RemoveTopicRecord(topic_id=FOO)
    )

    assert delta.topics.created == {}
    assert delta.deleted_topics == {}
    assert delta.apply(2, 1, 1).topics == EMPTY.topics


def test_clear_elr_touches_only_partitions_that_have_one() -> None:
    image = image_of(
        TopicRecord(name="foo", topic_id=FOO),
        partition(FOO, 0, eligible_leader_replicas=(B2,)),
        partition(FOO, 1),
        TopicRecord(name="bar", topic_id=BAR),
        partition(BAR, 0, last_known_elr=(B1,)),
    )

    of_foo = replayed(ClearElrRecord(topic_name="foo"), image=image)
    of_all = replayed(ClearElrRecord(), image=image)

    assert of_foo.changed_partitions.keys() == {TopicIdPartition(FOO, 0)}
    assert of_all.changed_partitions.keys() == {TopicIdPartition(FOO, 0), TopicIdPartition(BAR, 0)}
    for state in of_all.changed_partitions.values():
        assert (state.elr, state.last_known_elr) == ((), ())
        assert (state.leader_epoch, state.partition_epoch) == (0, 1)
    assert replayed(ClearElrRecord(), image=TWO_TOPICS).is_empty


def test_clear_elr_finds_a_topic_of_the_same_batch() -> None:
    delta = replayed(
        TopicRecord(name="foo", topic_id=FOO),
        ConfigRecord(resource_type=2, resource_name="foo", name="min.insync.replicas", value="2"),
        ClearElrRecord(topic_name="foo"),
        partition(FOO, 0),
    )

    assert delta.apply(3, 1, 1).topics.by_name["foo"].partitions.keys() == {0}


def test_brokers_register_change_and_leave() -> None:
    register = RegisterBrokerRecord(broker_id=B1, broker_epoch=BrokerEpoch(7))
    unfence = BrokerRegistrationChangeRecord(broker_id=B1, broker_epoch=BrokerEpoch(7), fenced=-1)
    image = image_of(register, unfence)

    assert image.cluster.brokers[B1].active
    assert image.cluster.brokers[B1].record_offset == 0

    again = replayed(
        RegisterBrokerRecord(broker_id=B1, broker_epoch=BrokerEpoch(9)),
        RegisterBrokerRecord(broker_id=B2, broker_epoch=BrokerEpoch(10)),
        UnregisterBrokerRecord(broker_id=B2, broker_epoch=BrokerEpoch(10)),
        image=image,
    )
    assert again.changed_brokers == {B1, B2}
    assert again.apply(4, 1, 1).cluster.brokers[B1].fenced
    assert again.apply(4, 1, 1).cluster.brokers.keys() == {B1}
    assert image.cluster.brokers[B1].active


def test_fence_and_unfence_records_of_old_levels() -> None:
    register = RegisterBrokerRecord(broker_id=B1, broker_epoch=BrokerEpoch(7))

    unfenced = image_of(register, UnfenceBrokerRecord(id=B1, epoch=BrokerEpoch(7)))
    fenced = image_of(FenceBrokerRecord(id=B1, epoch=BrokerEpoch(7)), image=unfenced)

    assert not unfenced.cluster.brokers[B1].fenced
    assert fenced.cluster.brokers[B1].fenced


def test_controllers_register_and_leave() -> None:
    image = image_of(RegisterControllerRecord(controller_id=100))

    assert image.cluster.controllers.keys() == {100}
    assert image_of(UnregisterControllerRecord(controller_id=100), image=image).cluster == (
        EMPTY.cluster
    )


def test_configs_are_set_and_deleted() -> None:
    first = ConfigRecord(resource_type=4, resource_name="", name="a", value="1")
    image = image_of(first, ConfigRecord(resource_type=4, resource_name="", name="b", value=""))

    assert image.configs.resource(4, "") == {"a": "1", "b": ""}
    delta = replayed(
        ConfigRecord(resource_type=4, resource_name="", name="a", value=None),
        ConfigRecord(resource_type=4, resource_name="", name="b", value=None),
        image=image,
    )
    assert delta.changed_configs == {(4, "")}
    assert delta.apply(3, 1, 1).configs == EMPTY.configs
    assert image.configs.resource(4, "") == {"a": "1", "b": ""}


def test_features_are_set_and_removed_at_level_0() -> None:
    level = FeatureLevelRecord(name="metadata.version", feature_level=17)
    delta = replayed(level, FeatureLevelRecord(name="group.version", feature_level=1))
    image = delta.apply(1, 1, 1)

    assert EMPTY.features.metadata_version == 1
    assert image.features.metadata_version == 17
    assert image.features.levels == {"metadata.version": 17, "group.version": 1}
    assert delta.changed_features
    off = image_of(FeatureLevelRecord(name="group.version", feature_level=0), image=image)
    assert off.features.levels == {"metadata.version": 17}
    migrated = image_of(ZkMigrationStateRecord(zk_migration_state=0), image=off)
    assert migrated.features.zk_migration_state == 0
    assert migrated.features.levels == off.features.levels


def test_quotas_are_kept_by_their_set_of_entities() -> None:
    user, client = QuotaEntity(entity_type="user"), QuotaEntity(entity_type="client-id")
    image = image_of(
        ClientQuotaRecord(entity=(user, client), key="rate", value=5.0),
        ClientQuotaRecord(entity=(client, user), key="rate", value=6.0),
    )

    assert image.quotas == {frozenset({("user", ""), ("client-id", "")}): {"rate": 6.0}}
    gone = ClientQuotaRecord(entity=(user, client), key="rate", remove=True)
    assert image_of(gone, image=image).quotas == {}


def test_producer_ids_move_on() -> None:
    delta = replayed(ProducerIdsRecord(broker_id=B1, next_producer_id=1000))

    assert not delta.is_empty
    assert delta.apply(0, 1, 1).next_producer_id == 1000


def test_security_records_are_kept_and_removed() -> None:
    acl = AccessControlEntryRecord(id=UUID(int=5), principal="User:a")
    scram = UserScramCredentialRecord(name="a", mechanism=1)
    token = DelegationTokenRecord(token_id="t")
    image = image_of(acl, scram, token)

    assert image.security.acls == {UUID(int=5): acl}
    assert image.security.scram == {("a", 1): scram}
    assert image.security.tokens == {"t": token}
    emptied = image_of(
        RemoveAccessControlEntryRecord(id=UUID(int=5)),
        RemoveUserScramCredentialRecord(name="a", mechanism=1),
        RemoveDelegationTokenRecord(token_id="t"),
        RemoveDelegationTokenRecord(token_id="unknown"),
        RemoveUserScramCredentialRecord(name="unknown", mechanism=2),
        image=image,
    )
    assert emptied.security == EMPTY.security
    assert image.security.acls == {UUID(int=5): acl}


@pytest.mark.parametrize(
    "record",
    [
        PartitionChangeRecord(partition_id=2, topic_id=FOO),
        PartitionChangeRecord(partition_id=0, topic_id=TopicId(UUID(int=3))),
        partition(TopicId(UUID(int=3)), 0),
        RemoveTopicRecord(topic_id=TopicId(UUID(int=3))),
        ClearElrRecord(topic_name="unknown"),
        BrokerRegistrationChangeRecord(broker_id=B2),
        FenceBrokerRecord(id=B2),
        UnfenceBrokerRecord(id=B2),
        RemoveAccessControlEntryRecord(id=UUID(int=5)),
        RawRecord(api_key=99, version=0, body=b""),
    ],
    ids=lambda record: type(record).__name__,
)
def test_record_that_does_not_fit_is_refused(record: Record) -> None:
    with pytest.raises(ReplayError):
        replayed(record, image=TWO_TOPICS)


def test_records_behind_the_removal_of_their_topic_are_refused() -> None:
    for record in (partition(FOO, 0), ClearElrRecord(topic_name="foo")):
        with pytest.raises(ReplayError):
            replayed(RemoveTopicRecord(topic_id=FOO), record, image=TWO_TOPICS)


def test_every_type_of_record_has_a_replay() -> None:
    for cls in RECORD_TYPES.values():
        try:
            MetadataDelta(EMPTY).replay(cls(), 0)
        except ReplayError:
            continue


def test_no_op_leaves_the_delta_empty() -> None:
    assert replayed(NoOpRecord(), image=TWO_TOPICS).is_empty


def test_difference_of_two_images_leads_from_one_to_the_other() -> None:
    again = TopicId(UUID(int=1 << 72))
    old = image_of(
        RegisterBrokerRecord(broker_id=B1),
        RegisterBrokerRecord(broker_id=B2),
        ConfigRecord(resource_type=2, resource_name="foo", name="a", value="1"),
        image=TWO_TOPICS,
    )
    new = image_of(
        UnregisterBrokerRecord(broker_id=B2),
        RemoveTopicRecord(topic_id=FOO),
        TopicRecord(name="foo", topic_id=again),
        partition(again, 0),
        PartitionChangeRecord(partition_id=0, topic_id=BAR, leader=B2),
        FeatureLevelRecord(name="metadata.version", feature_level=17),
        ProducerIdsRecord(next_producer_id=1000),
        image=old,
    )

    delta = MetadataDelta.between(old, new)

    assert delta.apply(new.offset, new.epoch, new.timestamp_ms) == new
    assert delta.changed_brokers == {B2}
    assert delta.deleted_topics.keys() == {FOO}
    assert delta.topics.created == {again: "foo"}
    changed = {TopicIdPartition(again, 0), TopicIdPartition(BAR, 0)}
    assert delta.changed_partitions.keys() == changed
    assert delta.changed_configs == {(2, "foo")}
    assert delta.changed_features
    assert MetadataDelta.between(new, new).changed_partitions == {}

"""Leader elections, on request and periodic.

Source: `ReplicationControlManager.electLeaders`, `maybeBalancePartitionLeaders`,
`maybeElectUncleanLeaders`, KIP-460.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.decide.partitions.leader_and_isr import electable
from controller.decide.partitions.partition_change import KEEP, partition_change
from controller.decide.state import (
    ControllerResult,
    ControllerState,
    PartitionEntry,
    RecordList,
    leader_test,
    partitions,
)
from controller.limits import ELECTIONS_PER_RUN_MAX
from jbodlab.controller_api.requests import (
    ElectionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from jbodlab.metadata.election import Election
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import NO_LEADER

PREFERRED, UNCLEAN = 0, 1


def elect_leaders(
    request: ElectLeadersRequest, state: ControllerState, now_ms: int
) -> ControllerResult[ElectLeadersResponse]:
    """Elect preferred leaders, or leaders outside of the ISR, as an operator asks.

    An unclean election asked for explicitly does not depend on the topic's setting.

    Raises:
        KafkaError: POLICY_VIOLATION, too many elections for one request.
    """
    if request.election_type not in (PREFERRED, UNCLEAN):
        return ControllerResult(
            response=ElectLeadersResponse(
                error_code=ErrorCode.INVALID_REQUEST,
                error_message=f"Unknown election type {request.election_type}",
            )
        )
    election = Election.PREFERRED if request.election_type == PREFERRED else Election.UNCLEAN
    records = RecordList(state.metadata_version)
    results = []
    if request.topic_partitions is None:
        for partition in partitions(state.image):
            result = _elect(partition, election, state, records)
            if result.error_code is not ErrorCode.ELECTION_NOT_NEEDED:
                results.append(result)
    else:
        elected: set[tuple[str, int]] = set()
        for topic, index in request.topic_partitions:
            found = _find(topic, index, state)
            if isinstance(found, ElectionResult):
                results.append(found)
            elif (topic, index) in elected:
                results.append(_not_needed(found))
            else:
                elected.add((topic, index))
                results.append(_elect(found, election, state, records))
    records.check_size()
    settled: tuple[str, ...] = ()
    if request.topic_partitions is None:
        named = {result.topic for result in results}
        settled = tuple(name for name in state.image.topics.by_name if name not in named)
    return ControllerResult(
        response=ElectLeadersResponse(results=tuple(results), settled_topics=settled),
        records=records.as_tuple(),
    )


def balance_preferred_leaders(state: ControllerState, now_ms: int) -> ControllerResult[bool]:
    """Give leadership back to first replicas that can lead again.

    Returns:
        As response, whether the limit of one run was reached.
    """
    misled = (
        each
        for each in partitions(state.image)
        if each.state.replicas and each.state.leader != each.state.replicas[0]
    )
    return _periodic(state, misled, Election.PREFERRED)


def elect_unclean_leaders(state: ControllerState, now_ms: int) -> ControllerResult[bool]:
    """Elect leaders outside of the ISR where a topic allows it and nobody leads.

    Catches a setting that was changed only after the failure.

    Returns:
        As response, whether the limit of one run was reached.
    """
    leaderless = (
        each
        for each in partitions(state.image)
        if each.state.leader == NO_LEADER and state.unclean_election_enabled(each.topic)
    )
    return _periodic(state, leaderless, Election.UNCLEAN)


def elect_leaderless(state: ControllerState, now_ms: int) -> ControllerResult[None]:
    """Elect leaders wherever there is none and somebody may lead.

    There is nothing to do, unless a controller was killed between the batches of a large result.
    """
    records = RecordList(state.metadata_version)
    for change in electable(state):
        records.add(change)
    return ControllerResult(response=None, records=records.as_tuple())


def _periodic(
    state: ControllerState, candidates: Iterable[PartitionEntry], election: Election
) -> ControllerResult[bool]:
    may_lead, degraded = leader_test(state.image.cluster), state.degraded
    records = RecordList(state.metadata_version)
    for partition in candidates:
        if len(records) == ELECTIONS_PER_RUN_MAX:
            return ControllerResult(response=True, records=records.as_tuple())
        records.add(
            partition_change(
                partition,
                KEEP,
                may_lead=may_lead,
                metadata_version=state.metadata_version,
                degraded=degraded,
                min_isr=state.min_isr(partition.topic),
                election=election,
            )
        )
    return ControllerResult(response=False, records=records.as_tuple())


def _find(topic: str, index: int, state: ControllerState) -> PartitionEntry | ElectionResult:
    image = state.image.topics.by_name.get(topic)
    known = None if image is None else image.partitions.get(index)
    if image is not None and known is not None:
        return PartitionEntry(image.name, image.topic_id, index, known)
    what = f"No such topic as {topic}" if image is None else f"No such partition as {topic}-{index}"
    return ElectionResult(
        topic=topic,
        partition=index,
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        error_message=what,
    )


def _elect(
    partition: PartitionEntry, election: Election, state: ControllerState, records: RecordList
) -> ElectionResult:
    known = partition.state
    if election is Election.PREFERRED:
        needed = known.leader != known.replicas[0]
        failure = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        reason = "The preferred leader was not available."
    else:
        needed = known.leader == NO_LEADER
        failure = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        reason = "No eligible leaders are available."
    if not needed:
        return _not_needed(partition)
    record = partition_change(
        partition,
        KEEP,
        may_lead=leader_test(state.image.cluster),
        metadata_version=state.metadata_version,
        degraded=state.degraded,
        min_isr=state.min_isr(partition.topic),
        election=election,
    )
    if record is None:
        return ElectionResult(
            topic=partition.topic,
            partition=partition.index,
            error_code=failure,
            error_message=reason,
        )
    records.add(record)
    return ElectionResult(topic=partition.topic, partition=partition.index)


def _not_needed(partition: PartitionEntry) -> ElectionResult:
    return ElectionResult(
        topic=partition.topic,
        partition=partition.index,
        error_code=ErrorCode.ELECTION_NOT_NEEDED,
        error_message="Leader election not needed for topic partition.",
    )

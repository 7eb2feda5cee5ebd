"""Differences of single client libraries, each with the rule of the broker that answers to it.

All other code of the servers is written for the protocol and names no library; where a rule exists
for one of them, it refers to this page. A row is a fact that was seen with the versions in
`docs/differences-from-kafka.md`. Its test shows the rule; without the rule that client loses time
or records.
"""

from __future__ import annotations

from typing import NamedTuple


class ClientBehaviour(NamedTuple):
    """One behaviour of clients.

    Attributes:
        client: The library; a version where others are known to differ.
        behaviour: How it behaves.
        rule: The broker's answer to it.
        module: Path of the module with the rule.
        test: Path and name of a test of the rule.
    """

    client: str
    behaviour: str
    rule: str
    module: str
    test: str


SARAMA = "sarama"
"""Name that the library gives in ApiVersions."""


def waits_after_errors(software_name: str) -> bool:
    """Return whether a consumer pauses for seconds after each error of a partition."""
    return software_name == SARAMA


BEHAVIOURS = (
    ClientBehaviour(
        SARAMA,
        "Its consumer waits for 2 s after any error of a partition. It does not wait where a "
        "response names another replica to read from, and looks for the leader if it does not "
        "know that replica.",
        "A partition that is led elsewhere names a replica that does not exist.",
        "broker/api/data/fetch.py",
        "tests/broker/api/data/test_fetch.py::"
        "test_sarama_is_sent_to_another_replica_instead_of_being_refused",
    ),
    ClientBehaviour(
        "aiokafka 0.12, sarama 1.43, kafka-python 2.0",
        "They raise KAFKA_STORAGE_ERROR, which their versions of Produce and Fetch do not have, "
        "to the application; an idempotent producer is left with a gap in its sequence.",
        "No request about a partition gets that error.",
        "jbodlab/server/partition_errors.py",
        "tests/broker/api/test_every_api.py::test_failure_of_a_request_is_told_in_every_version",
    ),
    ClientBehaviour(
        "librdkafka",
        "After OUT_OF_ORDER_SEQUENCE_NUMBER it continues in a new producer epoch and sends all "
        "unacknowledged batches again, also those that are in the log.",
        "Batches behind a refused one are refused for the same reason.",
        "broker/replica/leading/refused_batches.py",
        "tests/broker/replica/partition/test_partition_leading.py::"
        "test_what_is_sent_behind_a_batch_that_the_isr_was_too_small_for_is_not_out_of_order",
    ),
    ClientBehaviour(
        "librdkafka",
        "If it gets CONCURRENT_TRANSACTIONS and aborts meanwhile, it ends a transaction that "
        "never began, which is a fatal error.",
        "A request for the next transaction waits until the last one is completed.",
        "broker/transactions/transaction_core.py",
        "tests/broker/transactions/test_partitions.py::"
        "test_a_client_waits_for_the_end_of_its_transaction_before",
    ),
    ClientBehaviour(
        "librdkafka",
        "It looks for another coordinator after 500 ms, and waits 100 ms more before it sends "
        "its request again.",
        "The request is forwarded to the next coordinator.",
        "broker/api/services/next_coordinator.py",
        "tests/broker/api/services/test_next_coordinator.py::"
        "test_the_end_of_a_transaction_is_answered_by_the_next_coordinator",
    ),
    ClientBehaviour(
        "librdkafka",
        "A share consumer that does not find ShareGroupHeartbeat looks for its coordinator for "
        "ever, without an error.",
        "The API is advertised, and its response is an error that names the cause.",
        "broker/api/groups/share_groups.py",
        "tests/broker/api/test_other_apis.py::test_members_of_share_groups_are_refused_in_words",
    ),
    ClientBehaviour(
        "franz-go",
        "It sends the first batch of a transaction again only after it has asked for metadata, "
        "every 5 s, if that batch got CONCURRENT_TRANSACTIONS.",
        "The broker asks the coordinator again, for up to 2 s.",
        "broker/produce/transaction_admission.py",
        "tests/broker/produce/test_transaction_admission.py::"
        "test_a_coordinator_that_may_soon_answer_otherwise_is_asked_again",
    ),
    ClientBehaviour(
        "Java",
        "It sends an empty name beside a topic id in Metadata; others send none.",
        "The name beside an id does not count.",
        "broker/api/cluster/metadata.py",
        "tests/broker/api/cluster/test_metadata.py::"
        "test_topic_by_id_whatever_name_stands_beside_it",
    ),
    ClientBehaviour(
        "all",
        "A producer that got NOT_LEADER_OR_FOLLOWER may send the batch to the former leader "
        "again, and waits for a timer of its own after the second error.",
        "The former leader forwards the batch.",
        "broker/api/services/produce_forwarder.py",
        "tests/broker/api/test_produce_forwarder.py::"
        "test_who_is_resending_gets_the_answer_of_the_leader",
    ),
)

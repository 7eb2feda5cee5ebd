from __future__ import annotations

from dataclasses import replace

from controller.decide.heartbeats import Contact, Heartbeats
from jbodlab.metadata.image.broker_registration import BrokerRegistration
from jbodlab.metadata.image.cluster_image import ClusterImage
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, Offset
from tests.builders import brokers

ONE, TWO, THREE = brokers(1, 2, 3)


def cluster(*fenced: int) -> ClusterImage:
    return ClusterImage(
        brokers={
            broker_id: BrokerRegistration(
                broker_id=broker_id,
                epoch=BrokerEpoch(1),
                incarnation_id=None,  # type: ignore[arg-type]
                fenced=broker_id in fenced,
            )
            for broker_id in brokers(1, 2, 3)
        }
    )


def heartbeats(**contacts: Contact) -> Heartbeats:
    return Heartbeats(
        session_timeout_ms=100,
        contacts={BrokerId(int(name[1:])): contact for name, contact in contacts.items()},
    )


def test_at_activation_everybody_was_heard_of_just_now() -> None:
    state = Heartbeats.at_activation(cluster(3).brokers, 100, 5_000)

    assert state.contacts == {
        ONE: Contact(last_contact_ms=5_000),
        TWO: Contact(last_contact_ms=5_000),
        THREE: Contact(last_contact_ms=5_000, has_session=False),
    }
    assert state.next_expiry_ms(cluster()) == 5_101


def test_at_activation_a_broker_that_was_leaving_goes_on_leaving() -> None:
    known = {
        each: replace(registration, in_controlled_shutdown=True, record_offset=Offset(7))
        for each, registration in cluster(THREE).brokers.items()
        if each != ONE
    }
    state = Heartbeats.at_activation({**cluster().brokers, **known}, 100, 5_000)

    leaving = [state.in_controlled_shutdown(each) for each in (ONE, TWO, THREE)]
    # A broker that is fenced is let go at once.
    assert leaving == [False, True, False]
    assert state.contacts[TWO].controlled_shutdown_offset == 7


def test_a_new_controller_waits_for_all_unfenced_brokers_or_two_heartbeats() -> None:
    brokers = cluster(THREE)
    state = Heartbeats.at_activation(brokers.brokers, 100, 5_000, interval_ms=30)
    heard = Contact(last_contact_ms=5_000, offline_log_dirs=frozenset())

    assert not state.with_contact(ONE, heard).are_known(brokers, 5_059)
    # Broker 3 is fenced.
    assert state.with_contact(ONE, heard).with_contact(TWO, heard).are_known(brokers, 5_000)
    # A heartbeat that came too late has not told anything.
    assert (
        not state.with_contact(ONE, heard).touched(TWO, Offset(1), 5_001).are_known(brokers, 5_059)
    )
    assert state.are_known(brokers, 5_060)


def test_a_session_whose_end_was_written_does_not_end_again() -> None:
    one, two = (Contact(last_contact_ms=at, has_session=at > 5) for at in (10, 20))
    over = Contact(last_contact_ms=5, has_session=False)

    assert heartbeats(b1=one, b2=two).longest_silent(cluster()) == ONE
    assert heartbeats(b1=over, b2=two).longest_silent(cluster()) == TWO
    assert heartbeats(b1=over, b2=over).longest_silent(cluster()) is None
    assert heartbeats(b1=over, b2=over).next_expiry_ms(cluster()) is None


def test_a_session_is_valid_up_to_and_with_its_timeout() -> None:
    state = heartbeats(b1=Contact(last_contact_ms=10))

    assert state.session_is_valid(ONE, 110)
    assert not state.session_is_valid(ONE, 111)
    assert not state.session_is_valid(TWO, 10)


def test_the_lowest_offset_is_that_of_active_brokers() -> None:
    state = heartbeats(
        b1=Contact(last_contact_ms=0, metadata_offset=Offset(5)),
        b2=Contact(last_contact_ms=0, metadata_offset=Offset(7)),
        b3=Contact(
            last_contact_ms=0, metadata_offset=Offset(1), controlled_shutdown_offset=Offset(9)
        ),
    )

    assert state.lowest_active_offset(cluster()) == 5
    assert state.lowest_active_offset(cluster(1)) == 7
    assert state.lowest_active_offset(cluster(1, 2)) == float("inf")


def test_a_touch_keeps_what_else_is_known() -> None:
    old = Contact(last_contact_ms=0, controlled_shutdown_offset=Offset(9))

    new = heartbeats(b1=old).touched(ONE, Offset(4), 50).contacts[ONE]

    assert new == Contact(
        last_contact_ms=50, metadata_offset=Offset(4), controlled_shutdown_offset=Offset(9)
    )
    assert THREE in heartbeats().touched(THREE, Offset(4), 50).contacts

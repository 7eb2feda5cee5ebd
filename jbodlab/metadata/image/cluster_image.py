"""Brokers and controllers by id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from jbodlab.metadata.image.broker_registration import BrokerRegistration, by_name
from jbodlab.metadata.records.cluster_records import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)
from jbodlab.vocabulary.errors import ReplayError
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterImage:
    """Every registered node; never mutated."""

    brokers: Mapping[BrokerId, BrokerRegistration] = field(default_factory=dict)
    controllers: Mapping[int, RegisterControllerRecord] = field(default_factory=dict)


class ClusterDelta:
    """Changes to a ClusterImage; copies a map when it is first changed."""

    def __init__(self, image: ClusterImage) -> None:
        self.image = image
        self.changed_brokers: set[BrokerId] = set()
        self.changed_controllers: set[int] = set()
        self._brokers: dict[BrokerId, BrokerRegistration] | None = None
        self._controllers: dict[int, RegisterControllerRecord] | None = None

    @property
    def brokers(self) -> Mapping[BrokerId, BrokerRegistration]:
        """The brokers after the changes so far."""
        return self.image.brokers if self._brokers is None else self._brokers

    @property
    def is_empty(self) -> bool:
        """Whether the delta has no change."""
        return self._brokers is None and self._controllers is None

    def register_broker(self, record: RegisterBrokerRecord, offset: int) -> None:
        """Replace the whole registration of a broker."""
        self._put(BrokerRegistration.from_record(record, offset))

    def change_broker(self, record: BrokerRegistrationChangeRecord) -> None:
        """Merge a change into a registration."""
        self._put(self._known(record.broker_id).merge(record))

    def set_fenced(self, broker_id: BrokerId, epoch: BrokerEpoch, fenced: bool) -> None:
        """Fence or unfence a broker."""
        self._put(self._known(broker_id).with_fenced(fenced, epoch))

    def unregister_broker(self, broker_id: BrokerId) -> None:
        """Remove a registration; a missing one raises no error."""
        self._writable().pop(broker_id, None)
        self.changed_brokers.add(broker_id)

    def register_controller(self, record: RegisterControllerRecord) -> None:
        """Replace the registration of a controller."""
        self._writable_controllers()[record.controller_id] = msgspec.structs.replace(
            record, features=by_name(record.features)
        )
        self.changed_controllers.add(record.controller_id)

    def unregister_controller(self, controller_id: int) -> None:
        """Remove the registration of a controller."""
        self._writable_controllers().pop(controller_id, None)
        self.changed_controllers.add(controller_id)

    def become(self, target: ClusterImage) -> None:
        """Change all parts that differ from a given image."""
        for broker_id in target.brokers.keys() | self.image.brokers.keys():
            if target.brokers.get(broker_id) != self.image.brokers.get(broker_id):
                self.changed_brokers.add(broker_id)
        for controller_id in target.controllers.keys() | self.image.controllers.keys():
            if target.controllers.get(controller_id) != self.image.controllers.get(controller_id):
                self.changed_controllers.add(controller_id)
        self._brokers = dict(target.brokers)
        self._controllers = dict(target.controllers)

    def apply(self) -> ClusterImage:
        """Return the image after the changes."""
        if self.is_empty:
            return self.image
        controllers = self.image.controllers if self._controllers is None else self._controllers
        return ClusterImage(brokers=self.brokers, controllers=controllers)

    def _known(self, broker_id: BrokerId) -> BrokerRegistration:
        registration = self.brokers.get(broker_id)
        if registration is None:
            raise ReplayError(f"record for broker {broker_id}, which is not registered")
        return registration

    def _put(self, registration: BrokerRegistration) -> None:
        self._writable()[registration.broker_id] = registration
        self.changed_brokers.add(registration.broker_id)

    def _writable(self) -> dict[BrokerId, BrokerRegistration]:
        if self._brokers is None:
            self._brokers = dict(self.image.brokers)
        return self._brokers

    def _writable_controllers(self) -> dict[int, RegisterControllerRecord]:
        if self._controllers is None:
            self._controllers = dict(self.image.controllers)
        return self._controllers

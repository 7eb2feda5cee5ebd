"""The settings of this broker that are in force: its property file, and what was changed since.

Settings of this broker go before settings of all brokers, and those before the file. A
value that makes no sense, written by another version or another program, is passed over.

Source: `kafka.server.DynamicBrokerConfig`, KIP-226.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from broker.disk.upkeep import check_paths
from jbodlab.config import dynamic_keys, kafka_configs
from jbodlab.config.dynamic_keys import CORDONED_LOG_DIRS
from jbodlab.config.key_table import Values
from jbodlab.config.value_sources import BrokerLayers
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.records.config_records import BROKER_RESOURCE
from jbodlab.vocabulary.errors import ConfigError
from jbodlab.vocabulary.ids import BrokerId

logger = logging.getLogger(__name__)

Listener = Callable[[Values], None]


class DynamicConfig:
    """Follows the metadata; listeners are called on the loop with what is in force.

    Args:
        broker_id: Ours.
        static: The property file.
        log_dirs: Its data directories.
    """

    def __init__(self, broker_id: BrokerId, static: Values, log_dirs: Iterable[object]) -> None:
        # The file has one of both names, or the other.
        ids = {"node.id": str(broker_id), "broker.id": str(broker_id)}
        self.layers = BrokerLayers(broker={}, all_brokers={}, static={**static.properties, **ids})
        """Settings by the place where they are set."""
        self.values = Values(kafka_configs.BROKER, self.layers.static)
        """Values in force."""
        self._broker_id = broker_id
        self._log_dirs = tuple(map(str, log_dirs))
        self._listeners: list[Listener] = []

    def add_listener(self, listener: Listener) -> None:
        """Have `listener` called after every change, and once at the first update."""
        self._listeners.append(listener)

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Follow a change of the metadata."""
        names = {name for kind, name in delta.changed_configs if kind == BROKER_RESOURCE}
        if not names.isdisjoint(("", str(self._broker_id))):
            self.update(image)

    def update(self, image: MetadataImage) -> None:
        """Take over what an image has for this broker and for all."""
        static = self.layers.static
        self.layers = BrokerLayers(
            broker=image.configs.resource(BROKER_RESOURCE, str(self._broker_id)),
            all_brokers=image.configs.resource(BROKER_RESOURCE, ""),
            static=static,
        )
        merged = {
            **static,
            **_sound(self.layers.all_brokers, all_brokers=True),
            **_sound(self.layers.broker, all_brokers=False),
        }
        self.values = Values(kafka_configs.BROKER, merged)
        for listener in self._listeners:
            try:
                listener(self.values)
            except Exception:
                logger.exception("a part of the broker could not apply changed settings")

    def check_own(self, name: str, value: str) -> None:
        """Check what only this broker can know of a value that it is to get.

        Raises:
            ConfigError: the value is not permitted here.
        """
        if name == CORDONED_LOG_DIRS:
            check_paths(dynamic_keys.words(value), value, self._log_dirs)


def _sound(configs: Mapping[str, str], *, all_brokers: bool) -> dict[str, str]:
    """Return the settings that can be put into force."""
    sound = {}
    for name, value in configs.items():
        try:
            dynamic_keys.check({name: value}, all_brokers=all_brokers)
        except ConfigError as error:
            logger.warning("ignoring a dynamic setting: %s", error)
        else:
            sound[name] = value
    return sound

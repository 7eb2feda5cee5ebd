"""The subscriptions of the metadata, read anew after each change of settings."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from jbodlab.config.client_metrics import Subscription, subscription
from jbodlab.metadata.image.settings_image import ConfigsImage
from jbodlab.metadata.records.config_records import CLIENT_METRICS_RESOURCE
from jbodlab.vocabulary.errors import KafkaError

logger = logging.getLogger(__name__)


class Subscriptions:
    """Reads subscriptions by name; one that makes no sense here is passed over.

    Args:
        configs: Returns the settings of the metadata.
    """

    def __init__(self, configs: Callable[[], ConfigsImage]) -> None:
        self._configs = configs
        self._seen: ConfigsImage | None = None
        self._found: Mapping[str, Subscription] = {}

    def __call__(self) -> Mapping[str, Subscription]:
        """Return the subscriptions of now."""
        configs = self._configs()
        if configs is not self._seen:
            self._seen, self._found = configs, _read(configs)
        return self._found


def _read(configs: ConfigsImage) -> Mapping[str, Subscription]:
    found = {}
    for (kind, name), settings in configs.resources.items():
        if kind == CLIENT_METRICS_RESOURCE:
            try:
                found[name] = subscription(settings)
            except KafkaError as error:
                # Another program may have written it, with an expression that RE2 does not know.
                logger.warning("ignoring the subscription %s: %s", name, error.message)
    return found

"""Topics of Metadata responses, encoded for one version and cached while they do not change.

After every election all clients ask for metadata, most of them for the same topics, and encoding
thousands of partitions takes long. The encoding of a topic depends on its own image and on the
brokers: the bytes of an unchanged topic are cached until a broker is added or removed, or loses a
directory.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from broker.bounds.limits import ENCODED_KINDS_MAX
from jbodlab.metadata.image.cluster_image import ClusterImage
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.image.topics_image import TopicImage
from jbodlab.vocabulary.ids import TopicId


class TopicVariant(NamedTuple):
    """All that the bytes of a topic depend on besides the image."""

    version: int
    listener_name: str
    with_operations: bool


Known = dict[TopicId, tuple[TopicImage, bytes]]
"""The bytes of topics, each with the image that it is told of."""


class EncodedTopics:
    """Owner of the bytes; those of the kind that was asked for least lately give way."""

    def __init__(self) -> None:
        self._cluster: ClusterImage | None = None
        self._kinds: OrderedDict[TopicVariant, Known] = OrderedDict()

    def of(self, image: MetadataImage, kind: TopicVariant) -> Known:
        """Return what is known of this kind; whoever encodes a topic adds it."""
        if image.cluster is not self._cluster:
            # An answer that is worked out just now keeps what it has begun with.
            self._cluster = image.cluster
            self._kinds.clear()
        known = self._kinds.setdefault(kind, {})
        self._kinds.move_to_end(kind)
        if len(self._kinds) > ENCODED_KINDS_MAX:
            self._kinds.popitem(last=False)
        if len(known) > len(image.topics.by_id):
            for topic_id in known.keys() - image.topics.by_id.keys():
                del known[topic_id]
        return known

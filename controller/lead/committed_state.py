"""The state of this node after everything that is committed, whoever leads.

The replicated log hands in each batch once, in order. While an active controller runs here, nothing
is replayed twice: it has replayed its decisions before they are written, and hands in the image
after each round. That image becomes the committed one as soon as the last batch of the round is
committed. In any other case the batches are replayed.

A term begins from this state, and a resignation goes back to it. Snapshots, metrics and queries
read it in every role.
"""

from __future__ import annotations

from collections import deque

from controller.decide.settings.features import check_levels
from controller.quorum.replicated_log import Committed
from jbodlab.metadata.image.loader import MetadataLoader
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.image.settings_image import FeaturesImage
from jbodlab.metadata.log.batches import read_batches
from jbodlab.metadata.log.snapshots import Snapshot
from jbodlab.vocabulary.ids import Offset


class CommittedState:
    """Lives on the event loop; the first listener of a replicated log.

    Args:
        loader: The log as it was replayed at the start; all of it is committed.

    Raises:
        FormatError: a feature has a level that is not supported: the records of it might mean
            something else. So a controller that is too old neither votes nor leads.
    """

    def __init__(self, loader: MetadataLoader) -> None:
        self._loader = loader
        self._pending: deque[MetadataImage] = deque()
        """Images after rounds that are not committed yet, in the order of their offsets."""
        self._checked = FeaturesImage()
        self._check_levels()

    @property
    def image(self) -> MetadataImage:
        """The state after everything committed outside of open transactions."""
        return self._loader.image

    @property
    def end_offset(self) -> Offset:
        """First offset that is not committed."""
        return Offset(self._loader.next_offset)

    @property
    def transaction_is_open(self) -> bool:
        """Whether a metadata transaction is open, so that the image ends before `end_offset`."""
        return self._loader.transaction_is_open

    def expect(self, image: MetadataImage) -> None:
        """Take the image after a round that is being written, outside of any transaction."""
        assert image.offset >= self.end_offset
        self._pending.append(image)

    def drop_pending(self) -> None:
        """Forget the rounds that are being written: what of them is committed will be replayed."""
        self._pending.clear()

    def load_snapshot(self, snapshot: Snapshot) -> None:
        """Take what a snapshot says in place of everything: the log begins anew at its end.

        Raises:
            FormatError: a feature has a level that is not supported.
        """
        self._pending.clear()
        self._loader = MetadataLoader()
        self._loader.load_snapshot(
            snapshot.records, snapshot.end_offset, snapshot.epoch, snapshot.timestamp_ms
        )
        self._check_levels()

    def committed(self, committed: Committed) -> None:
        """Advance to the end of batches that are committed.

        Raises:
            FormatError: a feature has a level that is not supported.
        """
        while self._pending and self._pending[0].offset < committed.end_offset:
            self._loader = MetadataLoader(self._pending.popleft())
        if self.end_offset < committed.end_offset:
            for _, data in committed.batches:
                for batch in read_batches(data):
                    self._loader.load(batch)
        assert self.end_offset == committed.end_offset
        self._check_levels()

    def _check_levels(self) -> None:
        features = self.image.features
        if features is not self._checked:
            self._checked = features
            check_levels(features.levels)

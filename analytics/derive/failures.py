"""Failures of log directories and brokers as columns, and what else was where they were."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from analytics.bytes.arrays import Bools, Longs, groups
from analytics.decode.arrow_reading import FOR_EVER, Texts

_NOWHERE = np.iinfo(np.int64).min
"""Stands for the place of what lies in no directory that ever failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """All failures, one row each.

    Attributes:
        broker: That failed, or whose directory failed.
        directory: Text of its id; None if the whole broker failed.
        offset: Of the record that says so.
        time: Of that record, microseconds since 1970 or NO_TIME.
        batch: First offset of its batch.
        back: Offset at which it was over, FOR_EVER if it is not.
        back_time: Time of that.
        since: First offset at which something may have been done about it; None if not known yet.
    """

    broker: Longs
    directory: tuple[str | None, ...]
    offset: Longs
    time: Longs
    batch: Longs
    back: Longs
    back_time: Longs
    since: Longs | None = None

    def __len__(self) -> int:
        return len(self.broker)

    @property
    def of_brokers(self) -> Bools:
        """Which of them are failures of whole brokers."""
        return np.array([text is None for text in self.directory], dtype=np.bool_)

    @property
    def ends(self) -> Longs:
        """The times at which they were over, FOR_EVER for those that are not."""
        ends: Longs = np.where(self.back == FOR_EVER, FOR_EVER, self.back_time)
        return ends

    def whole_from(self) -> tuple[Longs, Longs]:
        """Return offset and time from which on what they touched may be whole again.

        A broker that does not serve is in no ISR.
        """
        whole = self.of_brokers
        offset: Longs = np.where(whole, self.back, self.offset)
        time: Longs = np.where(whole, self.back_time, self.time)
        return offset, time


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where rows are, and where failures were, as numbers of directories or of brokers."""

    are_brokers: bool
    rows: Longs
    failed: Longs
    """Of each failure."""
    which: Longs
    """The failures of this kind of places."""

    @staticmethod
    def of(failures: Failures, broker: Longs, directory: Texts) -> tuple[Places, Places]:
        """Return the directories and the brokers of some rows."""
        numbers: dict[str, int] = {}
        for text in failures.directory:
            if text is not None:
                numbers.setdefault(text, len(numbers))
        of_failure = [-1 if text is None else numbers[text] for text in failures.directory]
        failed = np.array(of_failure, dtype=np.int64)
        own = directory.renumbered(numbers)
        directories = _place(broker, own)
        directories[own < 0] = _NOWHERE
        return (
            Places(
                are_brokers=False,
                rows=directories,
                failed=_place(failures.broker, failed),
                which=np.nonzero(failed >= 0)[0],
            ),
            Places(
                are_brokers=True,
                rows=broker,
                failed=failures.broker,
                which=np.nonzero(failed < 0)[0],
            ),
        )

    def matched(self, rows: Longs) -> Iterator[tuple[Longs, Longs]]:
        """Give the rows, of some, that are in one place, and the failures of that place."""
        mine = rows[np.isin(self.rows[rows], self.failed[self.which])]
        by_place = self.which[np.argsort(self.failed[self.which], kind="stable")]
        failed = self.failed[by_place]
        for own in groups(self.rows[mine]):
            here = mine[own]
            place = self.rows[here[0]]
            low, high = (np.searchsorted(failed, place, side) for side in ("left", "right"))
            yield here, by_place[low:high]


def _place(broker: Longs, directory: Longs) -> Longs:
    return directory << 32 | (broker & 0xFFFFFFFF)

"""Tables that follow from the tables of facts: failures, moves, lag, flaps, skew, availability.

`derived_frames` is the door. Every table is Spark code over tables as they were written, so that
they can be made anew from tables of long ago.
"""

from __future__ import annotations

from analytics.derived.frames import derived_frames

__all__ = ["derived_frames"]

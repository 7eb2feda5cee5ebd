"""Tables that follow from the tables of facts: failures, moves, lag, flaps, skew, availability.

`derive_tables` is the door. It takes tables as they were written, so that these can be made anew
from tables of long ago.
"""

from __future__ import annotations

from analytics.derived.frames import Derived, derive_tables

__all__ = ["Derived", "derive_tables"]

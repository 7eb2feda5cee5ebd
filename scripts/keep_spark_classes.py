"""Keeps Spark's classes ready for `jbod-replay`; see `analytics.class_archive`."""

from __future__ import annotations

import sys

from analytics.class_archive import make_archive
from analytics.errors import ReplayInputError


def main() -> int:
    """Make the archive if it is not there; whatever prevents that only costs time later."""
    try:
        made = make_archive()
    except (ReplayInputError, OSError) as error:
        print(f"Spark's classes are not kept ready: {error}", file=sys.stderr)
        return 0
    if made is not None:
        print(f"keeping Spark's classes ready in {made}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The door to kio: imports it without what it offers to test suites.

Where hypothesis is installed, kio registers strategies for its types while it is imported. That
costs a server 0.3 s at start and 70 MB for good, so hypothesis is hidden for that moment. A process
that has imported hypothesis itself, such as a test run, keeps it.
"""

from __future__ import annotations

import sys

if "hypothesis" in sys.modules:
    from kio.schema.errors import ErrorCode
    from kio.serial import entity_reader
    from kio.serial.errors import OutOfBoundValue, SerialError
    from kio.static.constants import EntityType
else:
    sys.modules["hypothesis"] = None  # type: ignore[assignment]
    try:
        from kio.schema.errors import ErrorCode
        from kio.serial import entity_reader
        from kio.serial.errors import OutOfBoundValue, SerialError
        from kio.static.constants import EntityType
    finally:
        del sys.modules["hypothesis"]

__all__ = ["EntityType", "ErrorCode", "OutOfBoundValue", "SerialError", "entity_reader"]

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(eq=False)
class FakeConnection:
    """A connection that notes what it is told."""

    listener_name: str = "CLIENTS"
    ip: str = "10.0.0.1"
    is_busy: bool = False
    is_receiving: bool = False
    closed: list[bool] = field(default_factory=list)
    served: list[bool] = field(default_factory=list)

    def begin_serving(self) -> None:
        self.served.append(True)

    def close(self) -> None:
        self.closed.append(True)

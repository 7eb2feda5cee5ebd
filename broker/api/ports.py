"""What the handlers need from the rest of the broker."""

from __future__ import annotations

from typing import Protocol

from broker.disk.life.revival import Revived


class Revival(Protocol):
    """Brings log directories back."""

    async def revive(self, path: str) -> Revived:
        """Bring one back online; raises KafkaError with the reason if it stays offline."""

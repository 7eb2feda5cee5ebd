"""ConsumerGroupDescribe (KIP-848), which kafka-python does not know, as one of its messages."""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage  # type: ignore[import-untyped]

from admin_tool.requests import schemas


class ConsumerGroupDescribeRequest(ApiMessage, load_json=schemas):  # type: ignore[misc,call-arg]
    """Asks a coordinator for groups of KIP-848."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=schemas):  # type: ignore[misc,call-arg]
    """What it knows of them; a classic group is GROUP_ID_NOT_FOUND."""

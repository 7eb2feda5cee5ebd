"""The settings of this very broker, which nobody else can describe or check."""

from __future__ import annotations

from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import BrokerId


def check_broker(name: str, broker_id: BrokerId) -> None:
    """Check that a broker's settings are asked of that broker.

    Raises:
        KafkaError: INVALID_REQUEST.
    """
    if not (name.isascii() and name.isdecimal()):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"
        )
    if name != str(broker_id):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {broker_id} or empty string, but received {name}",
        )

"""The exception tree: every expected failure has a type here and carries what its handler needs."""

from __future__ import annotations

from pathlib import Path

from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import DirectoryId


class JbodlabError(Exception):
    """Root of everything this project raises on purpose."""


class KafkaError(JbodlabError):
    """An answer to a client: a Kafka error code, and a text for the response and the log."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message


class DecodeError(JbodlabError):
    """Bytes from outside are not what the protocol says."""


class BufferUnderflowError(DecodeError):
    """A field reaches beyond the end of the bytes."""


class DecompressedSizeError(DecodeError):
    """Compressed data becomes larger than it may."""

    def __init__(self, codec: str, bytes_max: int) -> None:
        super().__init__(f"{codec} data is larger than {bytes_max} bytes uncompressed")
        self.bytes_max = bytes_max


class UnknownRecordTypeError(DecodeError):
    """A record of a type that is not kept here, such as one of a newer release.

    Loading leaves such records out, and logs each type once.
    """

    def __init__(self, record_type: int) -> None:
        super().__init__(f"unknown record type {record_type}")
        self.record_type = record_type


class UnsupportedVersionError(DecodeError):
    """An API or schema version that is not served."""


class CorruptRecordError(JbodlabError):
    """Bytes of our own files are damaged."""

    def __init__(self, path: Path, position: int, reason: str) -> None:
        super().__init__(f"{path} is damaged at position {position}: {reason}")
        self.path = path
        self.position = position
        self.reason = reason


class LogDirError(JbodlabError):
    """This log directory is offline; clients see KAFKA_STORAGE_ERROR."""

    def __init__(self, path: Path, directory_id: DirectoryId | None, cause: str) -> None:
        super().__init__(f"log directory {path} went offline: {cause}")
        self.path = path
        self.directory_id = directory_id
        self.cause = cause


_PROVIDED: dict[str, set[str]] = {}
"""Settings of this process whose values stand outside of their file, and these values."""


def provided_by_others(key: str, values: set[str]) -> None:
    """Remember that a setting has its value from elsewhere: it is shown nowhere."""
    _PROVIDED.setdefault(key, set()).update(values - {""})


def is_provided(key: str) -> bool:
    """Return whether a setting has its value from elsewhere, so that it may be a secret."""
    return key in _PROVIDED


class ConfigError(JbodlabError):
    """A setting is wrong; one line for the operator, exit code 1.

    A value that does not stand in the file itself is hidden.
    """

    def __init__(self, key: str, value: object, reason: str) -> None:
        if key in _PROVIDED:
            value = "[hidden]"
            for secret in sorted(_PROVIDED[key], key=len, reverse=True):
                reason = reason.replace(secret, "[hidden]")
        super().__init__(f"invalid value '{value}' for configuration {key}: {reason}")
        self.key = key
        self.value = value
        self.reason = reason


class FormatError(JbodlabError):
    """A directory is not, or not properly, formatted."""


class ControllerUnavailableError(JbodlabError):
    """No answer from the active controller within the deadline; the caller may try again.

    Attributes:
        is_outcome_unknown: Whether it may have carried out what it was asked for.
    """

    def __init__(self, message: str, *, is_outcome_unknown: bool = True) -> None:
        super().__init__(message)
        self.is_outcome_unknown = is_outcome_unknown


class ReplayError(JbodlabError):
    """The metadata log contradicts itself, or holds a record that this version cannot interpret."""


class QuorumViolationError(JbodlabError):
    """The quorum of controllers contradicts itself; the process ends, and changes nothing more."""


class AuthenticationError(JbodlabError):
    """A login failed; the text is for the log of the server, and has no secret in it."""


class CloseConnectionError(JbodlabError):
    """The only possible answer is the end of the connection."""

"""Errors that make a replay impossible; faults inside the log become problem rows instead."""

from __future__ import annotations

from jbodlab.vocabulary.errors import JbodlabError


class ReplayInputError(JbodlabError):
    """Input, output or machine are not usable; one line for the operator, exit code 1."""


def reason_of(error: Exception) -> str:
    """Return what an error says, without number and file name."""
    return str(getattr(error, "strerror", None) or error)

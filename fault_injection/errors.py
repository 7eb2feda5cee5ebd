"""Errors that the fault injector prints in one line, with exit code 1."""

from __future__ import annotations

from jbodlab.vocabulary.errors import JbodlabError


class FaultError(JbodlabError):
    """A fault cannot be injected or healed; one line for the operator."""

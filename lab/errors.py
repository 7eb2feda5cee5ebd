"""Errors that the lab tells its user in one line, with exit code 1."""

from __future__ import annotations

from jbodlab.vocabulary.errors import JbodlabError

WRONG_USE = 64
"""Exit code of a wrong plan or call where 1 and 2 are verdicts, or codes of a user's program."""


class LabError(JbodlabError):
    """Something the user has to know about; the text is one line, details may follow on more."""


class WrongCallError(LabError):
    """The command was called wrongly: nothing was run."""

"""What the lab tells its user in one line, with exit code 1."""

from __future__ import annotations

from jbodlab.errors import JbodlabError


class LabError(JbodlabError):
    """Something the user has to know about; the text is one line, details may follow on more."""

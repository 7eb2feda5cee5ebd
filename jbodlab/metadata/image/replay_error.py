"""A record that does not fit the state it is replayed on."""

from __future__ import annotations

from jbodlab.vocabulary.errors import JbodlabError


class ReplayError(JbodlabError):
    """The log contradicts itself, or holds a record that this version cannot interpret."""

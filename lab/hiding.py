"""Secrets of settings, left out of what is kept: results are uploaded by CI and sent to others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from jbodlab.security.secret import HIDDEN

_OF_SECRETS = re.compile(
    r"password|passwd|passphrase|secret|credential|jaas|keystore\.key|key\.pem|private\.key|token"
    r"|sasl\.oauthbearer\.config"
)


def is_secret(key: str) -> bool:
    """Return whether a setting of Kafka, librdkafka or Java's clients holds a secret, by its name.

    A name that only looks like one is hidden as well: `delegation.token.max.lifetime.ms`.
    """
    return bool(_OF_SECRETS.search(key.lower().replace("_", ".")))


def hidden(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings without the values of secrets."""
    return {key: HIDDEN if is_secret(key) else value for key, value in settings.items()}


def hidden_plan(text: str) -> str:
    """Return a plan, as it is written, without the values of secrets."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    spans = {(found.start_mark.index, found.end_mark.index) for found in _secrets(node)}
    for begin, end in sorted(spans, reverse=True):
        # A value that is written as a block ends with the line break.
        rest = "\n" if text[begin:end].endswith("\n") else ""
        text = f'{text[:begin]}"{HIDDEN}"{rest}{text[end:]}'
    return text


def _secrets(node: Any) -> Iterator[Any]:
    """Yield the nodes of the values of secrets."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(value, yaml.ScalarNode) and is_secret(str(key.value)):
                yield value
            else:
                yield from _secrets(value)
    elif isinstance(node, yaml.SequenceNode):
        for each in node.value:
            yield from _secrets(each)

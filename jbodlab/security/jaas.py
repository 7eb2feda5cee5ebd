"""JAAS text in a setting: one login module with its options, `class flag key="value" ...;`.

Source: `org.apache.kafka.common.security.JaasConfig`. Only the modules of PLAIN, SCRAM and
OAUTHBEARER are known: others run code that the text names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from jbodlab.security.secret import Secret
from jbodlab.vocabulary.errors import ConfigError

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
FLAGS = ("required", "requisite", "sufficient", "optional")
USER_PREFIX = "user_"

TOKEN = re.compile(
    r"""\s*(?: "((?:[^"\\]|\\.)*)" | '((?:[^'\\]|\\.)*)' | ([;=]) | ([^\s;="']+) )""", re.VERBOSE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginModule:
    """Content of a JAAS text.

    Attributes:
        name: Class of the module.
        options: Its options; each may be a secret.
    """

    name: str
    options: Mapping[str, Secret[str]]

    @property
    def users(self) -> Mapping[str, Secret[str]]:
        """Passwords of users, from options `user_NAME="PASSWORD"` (PLAIN)."""
        return {
            key.removeprefix(USER_PREFIX): value
            for key, value in self.options.items()
            if key.startswith(USER_PREFIX)
        }

    def own_login(self, key: str) -> tuple[str, Secret[str]]:
        """Return user and password of who reads this text to log in.

        Args:
            key: The setting, for errors.

        Raises:
            ConfigError: one of them is missing.
        """
        user, password = self.options.get("username"), self.options.get("password")
        if user is None or password is None or not user.reveal():
            raise _wrong(key, 'needs username="NAME" password="PASSWORD"')
        return user.reveal(), password


def parse(key: str, text: str, module: str) -> LoginModule:
    """Read the text of a setting.

    Args:
        key: The setting, for errors.
        text: Its value.
        module: The class that it has to name.

    Raises:
        ConfigError: it is malformed, or names another class; the text is not repeated.
    """
    words = _words(key, text)
    if len(words) < 2 or words[-1] != (";", True):
        raise _wrong(key, "must end with ;")
    name, flag, *rest = words[:-1] if len(words) > 2 else (*words[:-1], ("", False))
    if name[0] != module:
        raise _wrong(key, f"must name the login module {module}")
    if flag[0].lower() not in FLAGS:
        raise _wrong(key, f"needs one of {', '.join(FLAGS)} after the login module")
    options: dict[str, Secret[str]] = {}
    while rest:
        if len(rest) < 3 or rest[0][1] or rest[1] != ("=", True) or rest[2][1]:
            raise _wrong(key, 'expected options NAME="VALUE"')
        option = rest[0][0]
        if option in options:
            raise _wrong(key, f"has the option {option} twice")
        options[option] = Secret(rest[2][0])
        rest = rest[3:]
    return LoginModule(name=name[0], options=options)


def _words(key: str, text: str) -> list[tuple[str, bool]]:
    """Return the words, each with whether it is a sign."""
    words = []
    position, text = 0, text.strip()
    while position < len(text):
        found = TOKEN.match(text, position)
        if found is None:
            raise _wrong(key, "has a quotation mark without its end")
        double, single, sign, plain = found.groups()
        quoted = double if double is not None else single
        if quoted is not None:
            words.append((re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL), False))
        else:
            words.append((sign or plain, sign is not None))
        position = found.end()
    return words


def _wrong(key: str, reason: str) -> ConfigError:
    return ConfigError(key, "[hidden]", reason)

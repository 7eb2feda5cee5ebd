"""Values that stand elsewhere: `${provider:[path:]key}` in a property file, and `config.providers`.

    config.providers=file
    config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
    config.providers.file.param.allowed.paths=/run/secrets
    ssl.key.password=${file:/run/secrets/kafka.properties:key.password}

Kafka leaves a reference that nobody can look up as it is, so that its text becomes the password.
Here it is an error, whichever setting it stands in.

Source: `org.apache.kafka.common.config.ConfigTransformer`, KIP-297, KIP-421, KIP-887.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Protocol

import msgspec

from jbodlab.security import java_pattern
from jbodlab.vocabulary import properties
from jbodlab.vocabulary.errors import ConfigError, provided_by_others

PROVIDERS = "config.providers"
PACKAGE = "org.apache.kafka.common.config.provider"
PATHS, NAMES = "allowed.paths", "allowlist.pattern"
_REFERENCE = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """Where values come from.

    Attributes:
        read_text: Returns what a file contains, as UTF-8; raises OSError or ValueError.
        exists: Returns whether there is a file or folder.
        variables: Those of the environment.
    """

    read_text: Callable[[str], str]
    exists: Callable[[str], bool]
    variables: Mapping[str, str]


class _Provider(Protocol):
    """Looks values up."""

    def find(self, path: str, key: str) -> str | None:
        """Return a value; None where there is none, OSError or ValueError say why."""


class _Paths:
    """Which files may be read.

    Raises:
        ConfigError: a path is not absolute, or is not there.
    """

    def __init__(self, name: str, params: Mapping[str, str], sources: Sources) -> None:
        self._allowed = None
        if PATHS in params:
            paths = [each.strip() for each in params[PATHS].split(",")]
            for each in paths:
                if not each.startswith("/") or not sources.exists(each):
                    raise ConfigError(
                        f"{PROVIDERS}.{name}.param.{PATHS}", each, "expected an absolute path"
                    )
            self._allowed = tuple(map(_normal, paths))

    def check(self, path: str) -> str:
        """Return a path; raises ValueError where it may not be read."""
        if self._allowed is None:
            return path
        normal = _normal(path)
        if not any(normal.is_relative_to(each) for each in self._allowed):
            raise ValueError(f"{path} is not below {PATHS}")
        return str(normal)


class _File:
    """Takes keys from property files."""

    def __init__(self, name: str, params: Mapping[str, str], sources: Sources) -> None:
        self._paths = _Paths(name, params, sources)
        self._read_text = sources.read_text

    def find(self, path: str, key: str) -> str | None:
        """Return the value of a key."""
        return properties.parse(self._read_text(self._paths.check(path))).get(key)


class _Directory:
    """Takes whole files of a folder."""

    def __init__(self, name: str, params: Mapping[str, str], sources: Sources) -> None:
        self._paths = _Paths(name, params, sources)
        self._read_text = sources.read_text

    def find(self, path: str, key: str) -> str | None:
        """Return what a file contains."""
        if "/" in key or key in ("", ".", ".."):
            raise ValueError(f"{key!r} is no name of a file")
        return self._read_text(f"{self._paths.check(path)}/{key}")


class _Variables:
    """Takes variables of the environment."""

    def __init__(self, name: str, params: Mapping[str, str], sources: Sources) -> None:
        self._variables = sources.variables
        text = params.get(NAMES, ".*")
        try:
            self._names = java_pattern.compiled(text)
        except java_pattern.JavaPatternError as error:
            raise ConfigError(f"{PROVIDERS}.{name}.param.{NAMES}", text, str(error)) from error

    def find(self, path: str, key: str) -> str | None:
        """Return the value of a variable."""
        if path:
            raise ValueError("a variable of the environment has no path")
        if self._names.fullmatch(key) is None:
            raise ValueError(f"{NAMES} does not allow it")
        return self._variables.get(key)


_CLASSES: Mapping[str, tuple[Callable[[str, Mapping[str, str], Sources], _Provider], str]] = {
    f"{PACKAGE}.FileConfigProvider": (_File, PATHS),
    f"{PACKAGE}.DirectoryConfigProvider": (_Directory, PATHS),
    f"{PACKAGE}.EnvVarConfigProvider": (_Variables, NAMES),
}
"""The providers of Kafka, and the parameter of each."""


def resolved(given: Mapping[str, str], sources: Sources) -> dict[str, str]:
    """Return settings with the values that they refer to, and without the providers.

    Raises:
        ConfigError: a provider or reference is wrong, or there is no such value.
    """
    providers = _providers(given, sources)
    found: dict[str, str] = {}
    for name, value in given.items():
        if name == PROVIDERS or name.startswith(f"{PROVIDERS}."):
            continue
        values: list[str] = []

        def look_up(match: re.Match[str], name: str = name, values: list[str] = values) -> str:
            values.append(_value(name, match, providers))
            return values[-1]

        found[name] = _REFERENCE.sub(look_up, value)
        if values:
            provided_by_others(name, {found[name].strip(), *values})
    return found


def _value(name: str, match: re.Match[str], providers: Mapping[str, _Provider]) -> str:
    provider, path, key = match[1], match[2] or "", match[3]
    if provider not in providers:
        raise ConfigError(name, match[0], f"{PROVIDERS} has no {provider}")
    try:
        value = providers[provider].find(path, key)
    except OSError as error:
        raise ConfigError(name, match[0], error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise ConfigError(name, match[0], "the file is not UTF-8") from error
    except ValueError as error:
        raise ConfigError(name, match[0], str(error)) from None
    if value is None:
        raise ConfigError(name, match[0], "there is no such value")
    return value


def _providers(given: Mapping[str, str], sources: Sources) -> dict[str, _Provider]:
    names = tuple(filter(None, map(str.strip, given.get(PROVIDERS, "").split(","))))
    return {name: _provider(name, given, sources) for name in names}


def _provider(name: str, given: Mapping[str, str], sources: Sources) -> _Provider:
    of_class, of_params = f"{PROVIDERS}.{name}.class", f"{PROVIDERS}.{name}.param."
    if not given.get(of_class, "").strip():
        raise ConfigError(PROVIDERS, name, f"{of_class} is missing")
    kind = given[of_class].strip()
    if kind not in _CLASSES:
        raise ConfigError(of_class, kind, f"expected one of {', '.join(_CLASSES)}")
    make, known = _CLASSES[kind]
    params = {
        key.removeprefix(of_params): value.strip()
        for key, value in given.items()
        if key.startswith(of_params)
    }
    for param, value in params.items():
        if param != known:
            raise ConfigError(of_params + param, value, f"{kind} has only {known}")
    return make(name, params, sources)


def _normal(path: str) -> PurePosixPath:
    """Return a path without `.` and `..`; raises ValueError if it is not absolute."""
    if not path.startswith("/"):
        raise ValueError(f"{path} is not absolute")
    parts: list[str] = []
    for part in PurePosixPath(path).parts[1:]:
        if part == "..":
            del parts[-1:]
        else:
            parts.append(part)
    return PurePosixPath("/", *parts)

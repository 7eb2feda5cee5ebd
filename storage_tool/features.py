"""Feature levels: those of a new cluster, those of a release, and their dependencies.

Features that are not implemented here (share groups, streams groups) stay at level 0, so that no
client relies on them.

Source: `org.apache.kafka.server.common.Feature`, `MetadataVersion`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from jbodlab.config.key_table import parse_integer
from jbodlab.metadata.records import metadata_version
from jbodlab.metadata.records.features import (
    KRAFT_VERSION,
    LEVEL_MAX,
    NOT_BUILT,
    REQUIRED_LEVEL,
    SUPPORTED,
    default_levels,
    unmet_requirement,
)
from jbodlab.metadata.records.metadata_version import FEATURE_NAME, JBOD_LEVEL, LATEST, name_of
from jbodlab.vocabulary.errors import FormatError


class InitialLevels(NamedTuple):
    """The feature levels that a cluster is formatted with."""

    metadata_version: int
    others: Mapping[str, int]
    """Levels of other features that are above 0."""


def initial_levels(
    release: str | None,
    features: Sequence[str],
    configured: str | None,
    *,
    is_dynamic: bool = False,
) -> InitialLevels:
    """Return the levels that a cluster is formatted with.

    Args:
        release: `--release-version`, or None.
        features: The `--feature` options.
        configured: `inter.broker.protocol.version` of the property file, or None.
        is_dynamic: Whether the voters are in the log, so that kraft.version is 1; its records are
            those of the quorum.

    Raises:
        FormatError: a release or feature is unknown, or a level is not supported.
    """
    wanted = _levels(features)
    if is_dynamic and not wanted.get(KRAFT_VERSION, 1):
        raise FormatError(
            "Cannot set kraft.version to 0 if KIP-853 configuration is present. Try removing the "
            "--feature flag for kraft.version."
        )
    chosen = wanted.pop(FEATURE_NAME, None)
    if chosen is not None and release is not None:
        raise FormatError(
            f"Use --release-version instead of --feature {FEATURE_NAME}={chosen} to avoid "
            "ambiguity."
        )
    if chosen is not None:
        level = chosen
        _known(level)
    else:
        text = release if release is not None else configured
        level = LATEST if text is None else release_level(text.strip())
    if level < JBOD_LEVEL:
        raise FormatError(
            f"metadata.version {name_of(level)} is too old to be supported. The oldest with log "
            f"directories is {name_of(JBOD_LEVEL)}."
        )
    if level > LATEST:
        raise FormatError(
            f"metadata.version {name_of(level)} is not yet stable. The latest supported is "
            f"{name_of(LATEST)}."
        )
    if is_dynamic:
        wanted[KRAFT_VERSION] = wanted.get(KRAFT_VERSION, 1)
    for name, feature_level in wanted.items():
        _check_other(name, feature_level, level, is_dynamic=is_dynamic)
    wanted.pop(KRAFT_VERSION, None)
    others = {**default_levels(level), **wanted}
    return InitialLevels(level, {name: number for name, number in others.items() if number})


def release_level(text: str) -> int:
    """Return the level of a release version.

    Raises:
        FormatError: it is unknown.
    """
    try:
        return metadata_version.parse_release(text)
    except ValueError:
        supported = ", ".join(name_of(level) for level in range(JBOD_LEVEL, LATEST + 1))
        raise FormatError(
            f"Unknown metadata.version '{text}'. Supported metadata.version are: {supported}"
        ) from None


def print_mapping(release: str | None) -> None:
    """Print the levels with which a cluster of a release is formatted here."""
    shown = name_of(LATEST) if release is None else release
    level, others = initial_levels(shown, (), None)
    print(f"{FEATURE_NAME}={level} ({shown})")
    for name in LEVEL_MAX:
        print(f"{name}={others.get(name, 0)}")


def print_dependencies(features: Sequence[str]) -> None:
    """Print the dependencies of each feature level.

    Raises:
        FormatError: a feature or level is unknown; no line is printed then.
    """
    lines = []
    for text in features:
        name, level = _parse_for_dependencies(text)
        shown = f"{name}={level}"
        if name == FEATURE_NAME:
            shown += f" ({name_of(level)})"
        required = REQUIRED_LEVEL.get((name, level))
        if required is None:
            lines.append(f"{shown} has no dependencies.")
        else:
            lines += [f"{shown} requires:", f"    {FEATURE_NAME}={required} ({name_of(required)})"]
    print("\n".join(lines))


def _levels(features: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for text in features:
        name, equals, level = (part.strip() for part in text.partition("="))
        if not equals:
            raise FormatError(f"Can't parse feature=level string {text}: equals sign not found.")
        try:
            number = parse_integer(level)
        except ValueError:
            raise FormatError(
                f"Can't parse feature=level string {text}: unable to parse {level} as a short."
            ) from None
        if name in found:
            raise FormatError(f"Feature {name} was specified more than once.")
        found[name] = number
    return found


def _check_other(name: str, level: int, metadata_level: int, *, is_dynamic: bool) -> None:
    if name not in LEVEL_MAX:
        raise FormatError(
            f"Unsupported feature: {name}. Supported features are: {', '.join(sorted(LEVEL_MAX))}"
        )
    supported = SUPPORTED[name]
    if name in NOT_BUILT and level != 0:
        raise FormatError(
            f"Cannot set {name} to {level}: {NOT_BUILT[name]} not supported, only level 0 is."
        )
    if not supported.low <= level <= supported.high:
        raise FormatError(f"Cannot set {name} to {level}: only levels {supported} are supported.")
    if level != 0 and name == KRAFT_VERSION and not is_dynamic:
        raise FormatError(
            f"Cannot set kraft.version to {level} unless KIP-853 configuration is present. Try "
            "removing the --feature flag for kraft.version."
        )
    reason = unmet_requirement(name, level, metadata_level)
    if reason:
        raise FormatError(reason)


def _known(level: int) -> None:
    try:
        name_of(level)
    except ValueError:
        raise FormatError(f"Unknown metadata.version {level}") from None


def _parse_for_dependencies(text: str) -> tuple[str, int]:
    name, _, version = (part.strip() for part in text.partition("="))
    try:
        level = parse_integer(version)
    except ValueError:
        raise FormatError(f"Invalid version format: {version or text} for feature {name}") from None
    if name == FEATURE_NAME:
        _known(level)
    elif name not in LEVEL_MAX:
        raise FormatError(f"Unknown feature: {name}")
    elif not 0 <= level <= LEVEL_MAX[name]:
        raise FormatError(f"Feature level {level} is not supported for feature {name}")
    return name, level

"""Assumptions of a user about a cluster that its log does not hold."""

from __future__ import annotations

import argparse

from analytics.ask.directory_paths import properties
from analytics.errors import ReplayInputError
from analytics.rare.min_insync import MIN_INSYNC_REPLICAS, AssumedMinIsr


def assumed_min_isr(options: argparse.Namespace) -> AssumedMinIsr:
    """Return what `min.insync.replicas` is where the log has none; the option counts first.

    Raises:
        ReplayInputError: it is no number of replicas, or the file cannot be read.
    """
    if options.min_insync_replicas is not None:
        value = _number(options.min_insync_replicas, "--min-insync-replicas")
        return AssumedMinIsr(value, "--min-insync-replicas")
    if options.config is None:
        return AssumedMinIsr()
    text = properties(options.config).get(MIN_INSYNC_REPLICAS)
    if text is None:
        return AssumedMinIsr(source=f"Kafka's default, {options.config} does not set it")
    value = _number(text, f"{MIN_INSYNC_REPLICAS} in {options.config}")
    return AssumedMinIsr(value, str(options.config))


def _number(text: str, what: str) -> int:
    value = int(text) if text.strip().isascii() and text.strip().isdecimal() else 0
    if not 1 <= value < 2**31:
        raise ReplayInputError(f"{what}: expected a number of replicas, got {text!r}")
    return value

"""What a command line says of the nodes of a cluster: its options of `declaring`."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from lab.cluster.engine import Engine
from lab.up_and_down import Shape

OPTIONS = ("engine", "config", "jvm_options", "controllers", "combined", "security")
"""By the names that the parsed options have."""


def first_given(options: Namespace, *more: str) -> str:
    """Return the first of these options, and of others, that is given; empty if none is."""
    given = (name for name in (*OPTIONS, *more) if getattr(options, name, None))
    return next((f"--{name.replace('_', '-')}" for name in given), "")


def shape(options: Namespace, engine: Engine, **more: Any) -> Shape:
    """Return the shape of a cluster of an engine; `more` is what the options do not say.

    Raises:
        EngineError: the engine has no such nodes.
    """
    # Beside other engines, options of the JVM are for those that have one.
    has_none = bool(getattr(options, "against", ())) and not engine.is_kafka
    wanted = Shape(
        config=dict(options.config),
        engine=engine,
        controllers=options.controllers or 1,
        is_combined=options.combined,
        jvm_options="" if has_none else options.jvm_options,
        security=options.security or "",
        **more,
    )
    engine.check_nodes(
        controllers=wanted.controllers,
        is_combined=wanted.is_combined,
        jvm_options=wanted.jvm_options,
    )
    return wanted

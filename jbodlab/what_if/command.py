"""`jbodlab what-if`: what a loss would take, from a running cluster or from a metadata log.

The two sources belong to programs of their own, which are imported by name when they are read.
"""

from __future__ import annotations

import gc
import json
import re
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from jbodlab.cli.choice import running_servers, use_client_file
from jbodlab.cli.dir_names import dir_or_broker
from jbodlab.cli.output import Output
from jbodlab.cli.parser import UsageError
from jbodlab.cli.program_names import name_of
from jbodlab.pages.conditions import Condition, parse_condition
from jbodlab.pages.values import Value
from jbodlab.runtime.metrics import render
from jbodlab.what_if import failure as failures
from jbodlab.what_if import figures, told
from jbodlab.what_if.cluster import Cluster, WhatIfError
from jbodlab.what_if.losses import losses
from jbodlab.what_if.moves import moves, reassignment

UNAVAILABLE = 2
"""Exit code where something would not stay available, or the condition of `--fail-on` holds."""

_MEGABYTE = 1_000_000
_RATE = re.compile(r"(\d+(?:\.\d+)?)(?: ?MB(?:/s)?)?", re.ASCII)
_OPTIONS_OF_LOG = ("input", "at", "min_insync_replicas", "config", "meta")
"""Options of the metadata log; each is empty by default."""
_SERVERS, _LOG = "admin_tool.what_if", "analytics.nouns"


def rate(text: str) -> float:
    """Return bytes per second of a rate in MB/s, as an argument's type.

    Raises:
        ArgumentTypeError: it is none, or 0.
    """
    found = _RATE.fullmatch(text.strip())
    if found is None or not float(found[1]):
        raise ArgumentTypeError(f"expected MB/s above 0, got {text!r}")
    return float(found[1]) * _MEGABYTE


def run(options: Namespace, output: Output) -> int:
    """Tell what a failure would do; returns the exit code."""
    condition = None
    if options.fail_on is not None:
        condition = parse_condition(options.fail_on, figures.KNOWN)
    is_one = any(
        one is not None for one in (options.fail_dir, options.fail_broker, options.ok_to_remove)
    )
    if is_one and (options.moves or options.format != "text"):
        raise UsageError("--moves and --format are for all losses")
    if options.format != "text" and (output.is_json or options.moves):
        raise UsageError("--format excludes --output json and --moves")
    with _without_collections():
        cluster = _source(options, output)(options, output)
        return (_one if is_one else _all)(options, output, cluster, condition)


@contextmanager
def _without_collections() -> Iterator[None]:
    """Look for no garbage meanwhile: what is read stays, and to look through it takes longer."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _source(options: Namespace, output: Output) -> Callable[[Namespace, Output], Cluster]:
    """Return what reads the cluster that a command line means."""
    of_log = [name for name in _OPTIONS_OF_LOG if getattr(options, name)]
    if options.bootstrap_server is not None:
        if of_log or options.cluster is not None:
            other = "cluster" if options.cluster is not None else of_log[0]
            raise UsageError(
                f"--bootstrap-server and --{other.replace('_', '-')} exclude each other"
            )
        return _reader(_SERVERS, "read")
    if not of_log:
        running = running_servers(options.cluster, output)
        if running is not None:
            options.bootstrap_server = running.bootstrap
            use_client_file(options, running)
            return _reader(_SERVERS, "read")
    if options.command_config is not None:
        raise UsageError("--command-config is for a running cluster")
    return _reader(_LOG, "read_what_if_source")


def _reader(module: str, function: str) -> Callable[[Namespace, Output], Cluster]:
    found: Callable[[Namespace, Output], Cluster] = getattr(
        import_module(name_of(module)), function
    )
    return found


def _all(options: Namespace, output: Output, cluster: Cluster, condition: Condition | None) -> int:
    found = losses(cluster)
    match options.format:
        case "prometheus":
            text = render(figures.metrics(cluster, found, options.rate), figures.DECLARED)
            print(text, end="", file=output.out)
        case "html":
            from jbodlab.what_if.page import losses_page

            print(losses_page(cluster, found, options.rate), file=output.out)
        case _ if options.moves:
            _moves(options, output, cluster)
        case _:
            output.result(
                told.losses_value(cluster, found, options.rate),
                told.losses_text(cluster, found, options.rate),
            )
    return _judged(output, condition, figures.named(found, options.rate), otherwise=0)


def _moves(options: Namespace, output: Output, cluster: Cluster) -> None:
    planned, after = moves(cluster)
    file = reassignment(cluster, planned)
    if options.moves == "-":
        print(json.dumps(file), file=output.out)
        return
    if planned or Path(options.moves).exists():
        # A file of former moves would be carried out again.
        try:
            Path(options.moves).write_text(json.dumps(file) + "\n", encoding="utf-8")
        except OSError as error:
            raise WhatIfError(f"cannot write {options.moves}: {error.strerror}") from error
    output.result(
        {"file": options.moves if planned else None, "moves": told.moves_value(planned)},
        told.moves_text(cluster, planned, losses(cluster), losses(after), options.moves),
    )


def _one(options: Namespace, output: Output, cluster: Cluster, condition: Condition | None) -> int:
    asked = options.ok_to_remove or options.fail_dir
    if asked is None:
        failure = failures.of_broker(cluster, options.fail_broker)
    elif asked.startswith("broker-"):
        try:
            failure = failures.named(cluster, dir_or_broker(asked))
        except ArgumentTypeError as error:
            raise WhatIfError(str(error)) from error
    else:
        failure = failures.of_directory(cluster, cluster.numbered(asked))
    if failure.is_offline and options.ok_to_remove is None:
        raise WhatIfError(f"{failure.name} is offline already")
    loss, found = failures.effects(cluster, failure)
    if options.ok_to_remove is not None:
        output.result(
            told.removal_value(cluster, loss, found),
            told.removal_text(cluster, asked, failure, loss, found),
        )
    else:
        output.result(
            told.failure_value(cluster, failure, loss, found, options.rate),
            told.failure_text(cluster, failure, loss, found, options.rate),
        )
    is_short = loss.leaderless or loss.below_min_isr
    if options.ok_to_remove is not None:
        is_short = not loss.is_harmless
    code = UNAVAILABLE if is_short else 0
    judged = _judged(output, condition, figures.named_of_one(loss, options.rate), otherwise=code)
    # "No" stays no, whatever else is asked.
    return code or judged if options.ok_to_remove is not None else judged


def _judged(
    output: Output, condition: Condition | None, values: dict[str, Value], *, otherwise: int
) -> int:
    """Return the exit code: that of a condition, where there is one."""
    if condition is None:
        return otherwise
    if not condition.holds(values):
        return 0
    output.note(f"jbodlab: {condition.text}: {condition.found(values)}")
    return UNAVAILABLE

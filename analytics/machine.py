"""The metadata log of a cluster of this machine."""

from __future__ import annotations

import os
from argparse import Namespace

from analytics.errors import ReplayInputError
from jbodlab.cli import lab_state
from jbodlab.cli.choice import machine_cluster
from jbodlab.cli.output import Output
from jbodlab.cli.parser import UsageError
from jbodlab.vocabulary.errors import DecodeError


def complete_input(options: Namespace, output: Output) -> None:
    """Fill in `options.input` where it is not given, and `options.cluster` with it.

    Raises:
        ReplayInputError: the cluster cannot be read.
        UsageError: both are given.
    """
    if options.input:
        if options.cluster is not None:
            raise UsageError("--cluster and --input exclude each other")
        return
    options.cluster = machine_cluster(options.cluster, output)
    directory = lab_state.state_dir(os.environ, os.geteuid())
    try:
        text = lab_state.cluster_file(directory, options.cluster).read_text("utf-8")
        state = lab_state.from_json(text)
    except (OSError, DecodeError) as error:
        raise ReplayInputError(f"cannot read cluster {options.cluster}: {error}") from error
    options.input = [state.controller.metadata_log_dir]

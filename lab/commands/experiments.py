"""`jbodlab demo`, `run` and `rehearse`: what their modules take from the command line."""

from __future__ import annotations

from argparse import Namespace

from jbodlab.cli.output import Output
from lab.commands.cluster_nouns import FOLDER
from lab.commands.fault_nouns import DEMO_CLUSTER
from lab.interrupts import Interrupts


def demo(options: Namespace, output: Output, interrupts: Interrupts) -> int:
    """Run the demo; returns the exit code."""
    from lab import demo

    options.json, options.output = output.is_json, options.results
    options.plain_folders = options.kind == FOLDER
    return demo.run(options, DEMO_CLUSTER, interrupts)


def run(options: Namespace, output: Output, interrupts: Interrupts) -> int:
    """Break a disk under a program; returns the exit code."""
    from lab.commands import running

    options.json, options.name, options.words = output.is_json, options.cluster, options.rest
    return running.run(options, interrupts)


def rehearse(options: Namespace, output: Output, interrupts: Interrupts) -> int:
    """Carry out a plan; returns the exit code."""
    from lab.rehearsal import command

    options.json, options.output = output.is_json, options.results
    return command.run(options, interrupts)

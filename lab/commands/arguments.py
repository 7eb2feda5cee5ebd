"""The options of the commands."""

from __future__ import annotations

import argparse
import re
from typing import Any

from fault_injection import kinds
from jbodlab import lab_state
from lab.rehearsal.arguments import WRONG_USE

PARAMETERS = {
    **kinds.PARAMETERS,
    # One line each, so that the help fits a screen; `jbod-fault kinds` tells all.
    "for": ("LENGTH", "heals by itself after so long, such as 20s"),
    "calls": ("LIST", "which calls, such as sync,write (default: all)"),
    "with": ("K", "the other directory, by its number"),
    "from": ("LIST", "whom from: controller,brokers,clients (default: all)"),
}
PORT_MAX = 65_535
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}")


def name(text: str) -> str:
    """Return the name of a cluster.

    Raises:
        ArgumentTypeError: it is none.
    """
    if not _NAME.fullmatch(text):
        raise argparse.ArgumentTypeError("letters, digits, - and _, at most 41 of them")
    return text


def port(text: str) -> int:
    """Return a port.

    Raises:
        ArgumentTypeError: it is none.
    """
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= PORT_MAX):
        raise argparse.ArgumentTypeError(f"{text!r} is no port from 1 to {PORT_MAX}")
    return int(text)


def common(parser: argparse.ArgumentParser, *, cluster: bool = True) -> None:
    """Enter the options that all commands have."""
    if cluster:
        parser.add_argument(
            "--name",
            type=name,
            default=lab_state.DEFAULT_NAME,
            help=f"name of the cluster (default: {lab_state.DEFAULT_NAME})",
        )
    parser.add_argument("--json", action="store_true", help="print JSON")


def add(commands: Any) -> None:
    """Enter all commands."""
    texts = {
        "start": "start brokers that do not run",
        "stop": "end brokers cleanly",
        "kill": "end brokers at once, as a power switch",
        "restart": "end brokers cleanly and start them again",
    }
    for command, text in texts.items():
        parser = commands.add_parser(command, help=text, allow_abbrev=False)
        parser.add_argument(
            "nodes",
            nargs="*" if command == "start" else "+",
            metavar="BROKER",
            help="such as broker-1 or 1, controller, or all",
        )
        if command in ("start", "restart"):
            parser.add_argument("--no-wait", action="store_true", help="until it serves again")
        common(parser)
    listing = commands.add_parser("list", help="show all clusters", allow_abbrev=False)
    common(listing, cluster=False)
    logs = commands.add_parser("logs", help="show what servers printed", allow_abbrev=False)
    logs.add_argument("nodes", nargs="*", metavar="BROKER", help="default: all servers")
    logs.add_argument("-f", "--follow", action="store_true", help="go on as it grows")
    logs.add_argument("-n", "--lines", type=int, default=20, help="of each (default: 20)")
    common(logs)
    inject = commands.add_parser(
        "inject",
        help="break something",
        usage="jbodlab inject [OPTION ...] KIND TARGET",
        allow_abbrev=False,
    )
    inject.add_argument(
        "kind", metavar="KIND", help="such as eio, full, slow, kill; all: jbod-fault kinds"
    )
    inject.add_argument("target", metavar="TARGET", help="broker-1/2: its directory 2; broker-1")
    inject.add_argument(
        "--no-wait", action="store_true", help="do not wait until the broker has noticed"
    )
    heal = commands.add_parser("heal", help="undo faults of the cluster", allow_abbrev=False)
    heal.add_argument("ids", nargs="*", type=int, metavar="ID", help="default: all open ones")
    heal.add_argument("--revive", action="store_true", help="and bring directories online again")
    common(heal)
    run = commands.add_parser(
        "run",
        help="break a disk while a command of yours runs",
        usage="jbodlab run --fail TARGET [OPTION ...] -- COMMAND",
        allow_abbrev=False,
    )
    run.wrong_use = WRONG_USE
    run.add_argument("--fail", metavar="TARGET", required=True, help="such as broker-1/2")
    run.add_argument("--kind", default="permission", help="kind of fault (default: permission)")
    run.add_argument("--after", default="3s", metavar="TIME", help="when (default: 3s)")
    run.add_argument("words", nargs="+", metavar="-- COMMAND", help="{bootstrap} is replaced")
    for parser in (inject, run):
        for word, (metavar, text) in PARAMETERS.items():
            parser.add_argument(f"--{word}", metavar=metavar, help=text, dest=f"word_{word}")
        common(parser)
    replay = commands.add_parser(
        "replay", help="tables and page of the cluster's metadata log", allow_abbrev=False
    )
    replay.add_argument("--output", metavar="DIR", help="default: kept in the state folder")
    common(replay)
    page = commands.add_parser(
        "ui", help="show a cluster as a live page in the browser", allow_abbrev=False
    )
    page.add_argument(
        "--bootstrap",
        metavar="HOST:PORT",
        help="a cluster of somebody else, such as Apache Kafka's, to look at",
    )
    page.add_argument(
        "--allow-faults", action="store_true", help="with buttons that break disks and heal them"
    )
    page.add_argument(
        "--port", type=port, default=0, metavar="PORT", help="default: one that is free"
    )
    common(page)
    completion = commands.add_parser(
        "completion", help="print what a shell completes by", allow_abbrev=False
    )
    completion.add_argument("shell", choices=("bash", "zsh"))

"""Arguments of jbod-storage, as Kafka's tool takes them; `@FILE` reads more, one per line."""

from __future__ import annotations

import argparse

from jbodlab.cli.command_line import ToolParser


def parser() -> ToolParser:
    """Return the parser of the whole command line."""
    top = ToolParser(
        prog="jbod-storage",
        description="Formats and describes log directories.",
        fromfile_prefix_chars="@",
        allow_abbrev=False,
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    info = commands.add_parser(
        "info", help="describe the log directories of a node", allow_abbrev=False
    )
    _add_config(info)
    _add_format(
        commands.add_parser(
            "format", help="format the log directories of a node", allow_abbrev=False
        )
    )
    mapping = commands.add_parser(
        "version-mapping", help="show the feature levels of a release", allow_abbrev=False
    )
    mapping.add_argument("-r", "--release-version", metavar="V", help="default: the latest")
    dependencies = commands.add_parser(
        "feature-dependencies", help="show the dependencies of feature levels", allow_abbrev=False
    )
    dependencies.add_argument(
        "-f",
        "--feature",
        metavar="NAME=LEVEL",
        action="append",
        required=True,
        help="feature and level; may be repeated",
    )
    commands.add_parser("random-uuid", help="print a random id", allow_abbrev=False)
    return top


def _add_config(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "-c", "--config", metavar="FILE", required=True, help="property file of the node"
    )


def _add_format(command: argparse.ArgumentParser) -> None:
    _add_config(command)
    command.add_argument(
        "-t", "--cluster-id", metavar="ID", required=True, help="id of the cluster"
    )
    command.add_argument(
        "-g",
        "--ignore-formatted",
        action="store_true",
        help="skip directories that are already formatted",
    )
    command.add_argument(
        "-r",
        "--release-version",
        metavar="V",
        help="release whose metadata.version the cluster starts with, such as 3.9 or 3.9-IV0",
    )
    command.add_argument(
        "-f",
        "--feature",
        metavar="NAME=LEVEL",
        action="append",
        default=[],
        help="initial level of a feature; may be repeated",
    )
    command.add_argument(
        "-S",
        "--add-scram",
        metavar="SPEC",
        action="append",
        default=[],
        help="credential of a user: SCRAM-SHA-256=[name=USER,password=PASSWORD]; may be repeated",
    )
    quorum = command.add_mutually_exclusive_group()
    quorum.add_argument(
        "-s",
        "--standalone",
        action="store_true",
        help="make this controller the first and only voter of a quorum",
    )
    quorum.add_argument(
        "-I",
        "--initial-controllers",
        metavar="LIST",
        help="first voters of a quorum: id@host:port:directory-id, separated by commas",
    )
    quorum.add_argument(
        "-N",
        "--no-initial-controllers",
        action="store_true",
        help="name no voters: the controllers that run have them",
    )

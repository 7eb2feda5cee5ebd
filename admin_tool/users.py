"""jbodlab users: who may log in by a password (SCRAM): list, add and remove users."""

from __future__ import annotations

import getpass
import os
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from admin_tool.arguments import positive
from admin_tool.connecting import connected
from jbodlab.cli.command import servers_command
from jbodlab.cli.output import Output
from jbodlab.cli.parser import Parser
from jbodlab.kafka_admin.errors import AdminError
from jbodlab.kafka_admin.users import Credential, describe_users, remove_password, set_password
from jbodlab.security import scram

if TYPE_CHECKING:
    from jbodlab.cli.results import ScramUser

SALT_BYTES = 24
DEFAULT = scram.ScramMechanism.SCRAM_SHA_512.text


def _add_arguments(parser: Parser) -> None:
    parser.add_argument("user", metavar="NAME", help="name of the user")
    text = f"{' or '.join(scram.MECHANISMS)} (default: {DEFAULT})"
    parser.add_argument("--mechanism", choices=tuple(scram.MECHANISMS), default=DEFAULT, help=text)
    text = f"how often the password is hashed (default: {scram.MIN_ITERATIONS})"
    parser.add_argument(
        "--iterations", metavar="N", type=positive, default=scram.MIN_ITERATIONS, help=text
    )


def _remove_arguments(parser: Parser) -> None:
    parser.add_argument("user", metavar="NAME", help="name of the user")
    text = "only the password of this mechanism"
    parser.add_argument("--mechanism", choices=tuple(scram.MECHANISMS), help=text)


async def _list(options: Namespace, output: Output) -> int:
    async with connected(options) as client:
        found = await describe_users(client)
    rows: list[ScramUser] = [
        {"user": one.user, "mechanism": one.mechanism.text, "iterations": one.iterations}
        for one in found
    ]
    output.rows(rows, "no users")
    return 0


async def _add(options: Namespace, output: Output) -> int:
    mechanism, salt = scram.MECHANISMS[options.mechanism], os.urandom(SALT_BYTES)
    password = _password(options.user)
    salted = scram.salted_password(mechanism, password, salt, options.iterations)
    async with connected(options) as client:
        credential = Credential(options.user, mechanism, options.iterations)
        await set_password(client, credential, salt, salted)
    output.line(f"{options.user} may log in by {options.mechanism}")
    return 0


async def _remove(options: Namespace, output: Output) -> int:
    async with connected(options) as client:
        found = [
            each.mechanism
            for each in await describe_users(client)
            if each.user == options.user and options.mechanism in (None, each.mechanism.text)
        ]
        if not found:
            raise AdminError(f"unknown user {options.user!r}")
        output.confirm(f"remove user {options.user}?", yes=options.yes)
        for mechanism in found:
            # One request may name a user once.
            await remove_password(client, options.user, mechanism)
    output.line(f"removed {options.user}")
    return 0


def _password(user: str) -> str:
    """Ask for a password, or read it from the standard input: command lines are seen by others."""
    password = getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().strip("\r\n")
    if not password:
        raise AdminError(f"expected a password of {user} on the standard input")
    return password


VERBS = {
    "list": servers_command(
        "list users and their mechanisms",
        _list,
        examples=("users list",),
        prints="list of ScramUser",
    ),
    "add": servers_command(
        "set the password of a user, read from the standard input",
        _add,
        _add_arguments,
        ("users add alice", "users add alice --mechanism SCRAM-SHA-256 < password.txt"),
    ),
    "remove": servers_command(
        "remove a user", _remove, _remove_arguments, ("users remove alice",), asks=True
    ),
}

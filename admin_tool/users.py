"""jbodlab users: who may log in by a password (SCRAM): list, add and remove users."""

from __future__ import annotations

import getpass
import os
import sys
from argparse import Namespace
from typing import Any

from admin_tool.acls import check
from admin_tool.arguments import positive
from admin_tool.errors import AdminError
from admin_tool.kafka_calls.connection import Connection, connected
from jbodlab.cli.command import servers_command
from jbodlab.cli.output import Output
from jbodlab.cli.parser import Parser
from jbodlab.security import scram

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


def _list(options: Namespace, output: Output) -> int:
    with connected(options) as connection:
        output.rows(_described(connection), "no users")
    return 0


def _add(options: Namespace, output: Output) -> int:
    mechanism, salt = scram.MECHANISMS[options.mechanism], os.urandom(SALT_BYTES)
    password = _password(options.user)
    salted = scram.salted_password(mechanism, password, salt, options.iterations)
    with connected(options) as connection:
        _alter(connection, [], [(options.user, mechanism, options.iterations, salt, salted)])
    output.line(f"{options.user} may log in by {options.mechanism}")
    return 0


def _remove(options: Namespace, output: Output) -> int:
    with connected(options) as connection:
        found = [
            scram.MECHANISMS[each["mechanism"]]
            for each in _described(connection)
            if each["user"] == options.user and options.mechanism in (None, each["mechanism"])
        ]
        if not found:
            raise AdminError(f"unknown user {options.user!r}")
        output.confirm(f"remove user {options.user}?", yes=options.yes)
        for mechanism in found:
            # One request may name a user once.
            _alter(connection, [(options.user, mechanism)], [])
    output.line(f"removed {options.user}")
    return 0


def _described(connection: Connection) -> list[dict[str, Any]]:
    from kafka.protocol import admin  # type: ignore[import-untyped]

    response = connection.call(admin.DescribeUserScramCredentialsRequest(users=None))
    check(response)
    return [
        {
            "user": user.user,
            "mechanism": scram.ScramMechanism(info.mechanism).text,
            "iterations": info.iterations,
        }
        for user in sorted(response.results, key=lambda each: str(each.user))
        for info in user.credential_infos
    ]


def _alter(connection: Connection, deletions: list[Any], upsertions: list[Any]) -> None:
    from kafka.protocol import admin

    request = admin.AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
    for result in connection.call(request).results:
        check(result)


def _password(user: str) -> str:
    """Ask for a password, or read it from the standard input: command lines are seen by others."""
    password = getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().strip("\n")
    if not password:
        raise AdminError(f"expected a password of {user} on the standard input")
    return password


VERBS = {
    "list": servers_command(
        "list users and their mechanisms", _list, examples=("users list",), reads=True
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

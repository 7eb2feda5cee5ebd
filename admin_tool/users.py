"""jbodlab users: who may log in by a password (SCRAM): list, add and remove users."""

from __future__ import annotations

import getpass
import os
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from admin_tool.connecting import connected
from jbodlab.cli.output import Output
from jbodlab.kafka_admin.errors import AdminError
from jbodlab.kafka_admin.users import Credential, describe_users, remove_password, set_password
from jbodlab.security import scram

if TYPE_CHECKING:
    from jbodlab.cli.results import ScramUser

SALT_BYTES = 24


async def list_all(options: Namespace, output: Output) -> int:
    """List users and their mechanisms; returns the exit code."""
    async with connected(options) as client:
        found = await describe_users(client)
    rows: list[ScramUser] = [
        {"user": one.user, "mechanism": one.mechanism.text, "iterations": one.iterations}
        for one in found
    ]
    output.rows(rows, "no users")
    return 0


async def add(options: Namespace, output: Output) -> int:
    """Set the password of a user, read from the standard input; returns the exit code."""
    mechanism, salt = scram.MECHANISMS[options.mechanism], os.urandom(SALT_BYTES)
    password = _password(options.user)
    salted = scram.salted_password(mechanism, password, salt, options.iterations)
    async with connected(options) as client:
        credential = Credential(options.user, mechanism, options.iterations)
        await set_password(client, credential, salt, salted)
    output.line(f"{options.user} may log in by {options.mechanism}")
    return 0


async def remove(options: Namespace, output: Output) -> int:
    """Remove a user; returns the exit code."""
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

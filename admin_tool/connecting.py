"""The way from a command line to a cluster."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from admin_tool.waiting import note_wait
from jbodlab.cli.command_line import read_properties

if TYPE_CHECKING:
    from jbodlab.kafka_admin.client import AdminClient


@asynccontextmanager
async def connected(options: Namespace) -> AsyncIterator[AdminClient]:
    """Connect to the cluster of a command line.

    Args:
        options: With `bootstrap_server` and `command_config`.

    Raises:
        AdminError: no broker answers.
        ConfigError: the client's properties are wrong.
        FormatError: the file with them cannot be read.
    """
    from jbodlab.kafka_admin.client import bootstrap_servers, opened
    from jbodlab.kafka_admin.properties import AdminProperties, admin_properties

    path = options.command_config
    properties = AdminProperties()
    if path is not None:
        properties = admin_properties(read_properties(Path(path)))
    for key in properties.unknown:
        print(f"{path}: unknown property {key} has no effect", file=sys.stderr)
    async with opened(bootstrap_servers(options.bootstrap_server), properties, note_wait) as client:
        yield client

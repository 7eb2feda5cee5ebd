"""jbodlab groups: which there are, how far they are, and setting their offsets."""

from __future__ import annotations

from admin_tool import group_changes, group_view
from admin_tool.client import add_partition
from admin_tool.offsets import A_TIME
from jbodlab.cli.command import About, Command
from jbodlab.cli.parser import Parser


def _names(parser: Parser) -> None:
    parser.add_argument("groups", metavar="GROUP", nargs="+", help="the groups")


def _reset_arguments(parser: Parser) -> None:
    parser.add_argument("group", metavar="GROUP", help="the group")
    parser.add_argument("--topic", required=True, help="the topic")
    add_partition(parser)
    text = (
        "earliest, latest, an offset, so many records on or back such as +100 or -100, or the "
        f"first record since {A_TIME}"
    )
    parser.add_argument("--to", metavar="WHERE", required=True, help=text)
    parser.add_argument("--dry-run", action="store_true", help="only show the new offsets")


VERBS = {
    "list": Command(
        help="list groups and their states",
        run=group_view.list_all,
        examples=("groups list",),
        about=About.SERVERS,
        reads=True,
    ),
    "describe": Command(
        help="show members, offsets and lag of groups",
        run=group_view.describe,
        arguments=_names,
        examples=("groups describe readers --output json",),
        about=About.SERVERS,
        reads=True,
    ),
    "reset": Command(
        help="set the offsets of a group without members",
        run=group_changes.reset,
        arguments=_reset_arguments,
        examples=(
            "groups reset readers --topic orders --to earliest --dry-run",
            "groups reset readers --topic orders --partition 0 --to -100 --yes",
        ),
        about=About.SERVERS,
        reads=True,
        asks=True,
    ),
    "delete": Command(
        help="delete groups without members, and their offsets",
        run=group_changes.delete,
        arguments=_names,
        examples=("groups delete readers",),
        about=About.SERVERS,
        asks=True,
    ),
}

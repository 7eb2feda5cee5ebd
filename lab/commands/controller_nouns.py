"""The commands for the controllers of a cluster of this machine."""

from __future__ import annotations

from jbodlab.cli.command import About, Command
from jbodlab.cli.parser import Parser
from lab.commands.declaring import carried_out_by


def _add_controller(parser: Parser) -> None:
    parser.add_argument("controller", metavar="CONTROLLER", help="such as controller-101, or 101")


def _add_add(parser: Parser) -> None:
    parser.description = (
        "Start one more controller, make it a voter, and start the brokers anew one by one. The\n"
        "controller of a cluster of one gets a port for others first, and is started anew."
    )


VERBS = {
    "list": Command(
        help="list the controllers of a cluster",
        run=carried_out_by("commands.controllers", "list_all"),
        about=About.MACHINE,
        prints="list of Controller",
        examples=("controllers list", "controllers list --output json"),
    ),
    "add": Command(
        help="start one more controller, which votes",
        arguments=_add_add,
        run=carried_out_by("commands.controllers", "add"),
        about=About.MACHINE,
        prints="map of text",
        examples=("controllers add",),
    ),
    "remove": Command(
        help="end a controller for good",
        arguments=_add_controller,
        run=carried_out_by("commands.controllers", "remove"),
        about=About.MACHINE,
        prints="map of text",
        examples=("controllers remove controller-102",),
    ),
    "transfer": Command(
        help="have another controller be active",
        arguments=_add_controller,
        run=carried_out_by("commands.controllers", "transfer"),
        about=About.MACHINE,
        prints="map of text",
        examples=("controllers transfer controller-101",),
    ),
}

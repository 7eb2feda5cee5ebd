"""The commands that start, show and stop clusters of this machine."""

from __future__ import annotations

from jbodlab.cli.command import About, Command
from jbodlab.cli.parser import Parser
from lab.cluster.spec import On
from lab.commands.declaring import add_nodes, add_settings, carried_out_by, port


def _add_up(parser: Parser) -> None:
    add_settings(parser, On.UP)


def _add_down(parser: Parser) -> None:
    parser.description = (
        "Stop a cluster and remove all its files; ask first where that deletes records.\n"
        "Exit code 0 also where the cluster does not exist."
    )


def _add_logs(parser: Parser) -> None:
    add_nodes(parser, needed=False, default="all")
    parser.add_argument("-f", "--follow", action="store_true", help="go on until Ctrl-C")
    parser.add_argument(
        "-n",
        "--lines",
        type=int,
        default=20,
        metavar="N",
        help="begin with the last N of each server (default: 20)",
    )


def _add_ui(parser: Parser) -> None:
    parser.add_argument(
        "--allow-faults",
        action="store_true",
        help="show buttons that break disks and heal them (not with --bootstrap-server)",
    )
    parser.add_argument(
        "--port",
        type=port,
        default=0,
        metavar="PORT",
        help="port of the page (default: a free one)",
    )


def _add_serve(parser: Parser) -> None:
    parser.description = (
        "Start a cluster, and serve it with an HTTP API that breaks its disks, until Ctrl-C.\n"
        "Each setting may come from the environment too: JBODLAB_BROKERS=5, and so on. Beyond\n"
        "this machine requests carry a token: $JBODLAB_TOKEN, or the one that is printed."
    )
    parser.add_argument(
        "--listen",
        default="127.0.0.1:0",
        metavar="HOST:PORT",
        help="address of the API and the live page (default: a free port of 127.0.0.1)",
    )
    parser.add_argument(
        "--until-input-ends",
        action="store_true",
        help="end as soon as nobody can write to the standard input any more, for programs",
    )
    add_settings(parser, On.UP)


UP = Command(
    help="start a cluster and leave it running",
    arguments=_add_up,
    run=carried_out_by("commands.up", "up"),
    about=About.NEW,
    prints="Up",
    examples=(
        "up",
        "up --brokers 5 --disks 2 --cluster five",
        "up --kind folder --port-base 19092",
        "up --engine kafka:4.3.1 --controllers 3",
        "up --security sasl_ssl",
    ),
)
DOWN = Command(
    help="stop a cluster and remove it",
    arguments=_add_down,
    run=carried_out_by("commands.up", "down"),
    about=About.EITHER,
    prints="Down",
    asks=True,
    examples=("down", "down --cluster five --yes"),
)
LIST = Command(
    help="list the clusters of this machine",
    run=carried_out_by("commands.clusters", "list_all"),
    prints="list of ListedCluster",
    examples=("list", "list --output json"),
)


def _add_status(parser: Parser) -> None:
    parser.description = (
        "Show brokers, directories and leaders.\n"
        "Exit code 0 if all is well, 1 if a server, a directory or a leader is missing."
    )


STATUS = Command(
    help="show brokers, directories and leaders",
    arguments=_add_status,
    run=carried_out_by("commands.clusters", "show_status"),
    about=About.MACHINE,
    prints="Status",
    examples=("status", "status --cluster five --output json"),
)
LOGS = Command(
    help="show what the servers have logged",
    arguments=_add_logs,
    run=carried_out_by("commands.logs"),
    about=About.MACHINE,
    prints="ServerLine",
    examples=("logs", "logs --follow broker-1 controller", "logs --lines 100 --output json"),
)


def _of_servers(verb: str, text: str, *examples: str, waits: bool, default: str = "") -> Command:
    """Return a command for servers of a cluster, which are named unless there is a default."""

    def add(parser: Parser) -> None:
        add_nodes(parser, needed=not default, default=default)
        if waits:
            parser.add_argument(
                "--no-wait", action="store_true", help="do not wait until the brokers serve again"
            )

    return Command(
        help=text,
        arguments=add,
        run=carried_out_by("commands.lifecycle", verb),
        about=About.MACHINE,
        prints="map of text",
        examples=tuple(f"{verb} {example}".strip() for example in examples),
    )


START = _of_servers(
    "start", "start brokers that do not run", "", "broker-2", waits=True, default="all"
)
STOP = _of_servers("stop", "stop brokers in order", "broker-2", "all", waits=False)
KILL = _of_servers("kill", "kill brokers with SIGKILL", "broker-2", "controller", waits=False)
RESTART = _of_servers(
    "restart",
    "stop brokers in order and start them again",
    *("broker-2", "all --no-wait"),
    waits=True,
)
UI = Command(
    help="show a cluster on a live page",
    arguments=_add_ui,
    run=carried_out_by("commands.page", "ui", anywhere=True),
    about=About.SERVERS,
    prints="Served",
    examples=("ui", "ui --allow-faults", "ui --bootstrap-server kafka:9092 --port 8080"),
)
SERVE = Command(
    help="start a cluster with an HTTP API that breaks its disks",
    arguments=_add_serve,
    run=carried_out_by("commands.page", "serve"),
    about=About.NEW,
    prints="Served",
    examples=("serve", "serve --brokers 5 --listen 127.0.0.1:8080", "serve --output json"),
)

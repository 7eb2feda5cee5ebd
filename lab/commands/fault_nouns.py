"""The commands that break things, heal them and judge what happened."""

from __future__ import annotations

from pathlib import Path

from jbodlab.cli.command import About, Command
from jbodlab.cli.parser import Parser
from lab.cluster.spec import On
from lab.commands.declaring import (
    add_against,
    add_settings,
    carried_out_by,
    number,
)
from lab.errors import WRONG_USE

REPEATS_MAX = 1000


def add_target(parser: Parser) -> None:
    """Add the kind of a fault, and what it breaks."""
    from fault_injection import kinds

    parser.add_argument(
        "kind",
        choices=tuple(kinds.KINDS),
        metavar="KIND",
        help="such as eio, full, slow, kill; `jbodlab faults kinds` lists all",
    )
    parser.add_argument(
        "target",
        nargs="?",
        metavar="TARGET",
        help="broker-1/2 (its directory 2), broker-1, controller-100/1, controller-100, or cluster",
    )
    parser.add_argument(
        "--path", metavar="DIR", help="break this log directory, whichever server uses it"
    )
    parser.add_argument(
        "--user", metavar="USER", help="with --path: user of the server (default: DIR's owner)"
    )
    add_parameters(parser)


def add_parameters(parser: Parser) -> None:
    """Add the words that describe a fault."""
    from fault_injection import kinds

    group = parser.add_argument_group("the fault")
    for word, (metavar, text) in kinds.PARAMETERS.items():
        group.add_argument(f"--{word}", metavar=metavar, help=text, dest=f"word_{word}")


def _add_inject(parser: Parser) -> None:
    add_target(parser)
    parser.add_argument(
        "--no-wait", action="store_true", help="do not wait until the broker detects the fault"
    )


def _add_heal(parser: Parser) -> None:
    parser.add_argument(
        "ids", nargs="*", type=int, metavar="ID", help="number of a fault (default: all open ones)"
    )
    parser.add_argument("--path", metavar="DIR", help="the faults in DIR and below")
    parser.add_argument("--all", action="store_true", help="the faults of all clusters and paths")
    parser.add_argument(
        "--revive", action="store_true", help="also bring offline directories online again"
    )


def _add_run(parser: Parser) -> None:
    from fault_injection import kinds

    parser.description = (
        "Break a disk while a program of yours runs, and measure what the cluster made of it.\n"
        "In COMMAND, {bootstrap} is replaced by the addresses of the brokers.\n"
        "Exit code: that of COMMAND; 64 a wrong call; 70 messages were lost or duplicated;\n"
        "75 nobody knows, since messages could not be read or nothing was broken.\n"
        "With --engine or --security, or $JBODLAB_ENGINE while no cluster is up, it starts one\n"
        "and ends it. On a closed cluster JBODLAB_CLIENT_FILE_JAVA, _LIBRDKAFKA, _KAFKA_PYTHON\n"
        "and _FRANZ_GO name files by which clients reach it."
    )
    parser.add_argument("--fail", metavar="TARGET", required=True, help="such as broker-1/2")
    parser.add_argument(
        "--kind",
        choices=tuple(kinds.KINDS),
        default="permission",
        metavar="KIND",
        help="kind of fault (default: permission)",
    )
    parser.add_argument("--after", default="3s", metavar="TIME", help="when (default: 3s)")
    add_settings(parser, On.OTHERS)
    add_parameters(parser)


def _add_demo(parser: Parser) -> None:
    parser.add_argument("--keep", action="store_true", help="leave the cluster running at the end")
    parser.add_argument(
        "--results", metavar="DIR", type=Path, help="folder for the results (default: a new one)"
    )
    parser.add_argument("--no-spark", action="store_true", help="do not replay the log with Spark")
    add_settings(parser, On.DEMO)
    add_against(parser)


def _add_rehearse(parser: Parser) -> None:
    parser.description = (
        "Carry out a plan of faults under load, and judge what happened.\n"
        "Exit codes: 0 PASS, 1 FAIL, 2 INCONCLUSIVE, 64 a wrong plan or call."
    )
    parser.add_argument("plan", nargs="?", metavar="PLAN", help="a YAML file, or a shipped plan")
    parser.add_argument("--list", action="store_true", help="list the shipped plans")
    parser.add_argument(
        "--results", type=Path, metavar="DIR", help="folder for the results (default: a new one)"
    )
    parser.add_argument(
        "--repeat", type=number(REPEATS_MAX), default=1, metavar="N", help="run it N times"
    )
    add_settings(parser, On.OTHERS)
    add_against(parser)
    parser.add_argument(
        "--compare", nargs=2, type=Path, metavar=("A", "B"), help="compare two result.json"
    )
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write the verdict as JUnit XML")
    parser.add_argument("--check", action="store_true", help="read the plan, run nothing")
    parser.add_argument(
        "--i-know-this-cluster-is-mine",
        dest="is_mine",
        action="store_true",
        help="break an attached cluster that is not on this machine",
    )


def _rehearse_refused(words: list[str], reason: str) -> None:
    from lab.rehearsal import command

    command.refused(words, reason)


INJECT = Command(
    help="break a directory or a broker",
    arguments=_add_inject,
    run=carried_out_by("commands.breaking", "inject"),
    about=About.EITHER,
    prints="Injected",
    examples=(
        "inject permission broker-1/2",
        "inject eio broker-1/2 --calls sync,write --for 20s",
        "inject kill broker-3",
        "inject full --path /data/d1 --user kafka",
    ),
)
HEAL = Command(
    help="revert faults",
    arguments=_add_heal,
    run=carried_out_by("commands.breaking", "heal"),
    about=About.EITHER,
    prints="Healed",
    examples=("heal", "heal --revive", "heal 3", "heal --path /data/d1", "heal --all"),
)


def _add_faults_list(parser: Parser) -> None:
    parser.description = "List the open faults of this machine, or of one cluster."


FAULTS = {
    "list": Command(
        help="list open faults",
        arguments=_add_faults_list,
        run=carried_out_by("commands.fault_lists", "list_open", anywhere=True),
        about=About.EITHER,
        prints="list of ListedFault",
        examples=("faults list", "faults list --cluster five --output json"),
    ),
    "kinds": Command(
        help="list the kinds of faults",
        run=carried_out_by("commands.fault_lists", "list_kinds", anywhere=True),
        prints="list of FaultKind",
        examples=("faults kinds",),
    ),
    "check": Command(
        help="tell whether a fault can be injected; changes nothing",
        arguments=add_target,
        run=carried_out_by("commands.breaking", "check"),
        about=About.EITHER,
        prints="Checked",
        examples=("faults check eio broker-1/2", "faults check full --path /data/d1"),
    ),
}
RUN = Command(
    help="break a disk while a program of yours runs",
    arguments=_add_run,
    run=carried_out_by("commands.running"),
    about=About.EITHER,
    prints="RunOfProgram",
    wrong_use=WRONG_USE,
    rest="COMMAND",
    examples=(
        "run --fail broker-1/2 -- ./my-app --bootstrap {bootstrap}",
        "run --fail broker-2 --kind kill --after 10s -- pytest tests/",
        "run --engine kafka:3.9.1 --fail broker-1/2 -- ./my-app --bootstrap {bootstrap}",
        "run --security sasl_ssl --fail broker-1/2 -- ./my-app",
    ),
)
DEMO = Command(
    help="start a cluster, break a disk, show what happens",
    arguments=_add_demo,
    run=carried_out_by("demo"),
    prints="Run or list of Run",
    examples=(
        "demo",
        "demo --keep --results /tmp/demo",
        "demo --engine kafka:4.3.1 --no-spark",
        "demo --security sasl_ssl",
        "demo --against kafka:3.9.1 --against kafka:4.3.1 --no-spark",
    ),
)
REHEARSE = Command(
    help="carry out a plan of faults under load",
    arguments=_add_rehearse,
    run=carried_out_by("rehearsal.command"),
    prints="Run or list of Run or list of ShippedPlan",
    wrong_use=WRONG_USE,
    refused=_rehearse_refused,
    examples=(
        "rehearse --list",
        "rehearse slow-disk --repeat 5",
        "rehearse slow-disk --engine kafka:3.9.1",
        "rehearse my-plan.yaml --junit verdict.xml",
        "rehearse --compare before/result.json after/result.json",
    ),
)

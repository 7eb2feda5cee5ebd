"""`jbodlab storage`: log directories and the files in them; none of this needs a broker."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace

from jbodlab.cli.command import Command
from jbodlab.cli.output import Output
from jbodlab.cli.parser import Parser

SIZE_MAX = 2**31 - 1
RATE_MB_S = 50.0
"""Default rate of reading, in MB of 10^6 bytes a second."""


def _add_config(parser: Parser) -> None:
    parser.add_argument(
        "-c", "--config", metavar="FILE", required=True, help="property file of the node"
    )


def _add_format(parser: Parser) -> None:
    _add_config(parser)
    parser.add_argument("-t", "--cluster-id", metavar="ID", required=True, help="id of the cluster")
    parser.add_argument(
        "-g",
        "--ignore-formatted",
        action="store_true",
        help="skip directories that are formatted already",
    )
    parser.add_argument(
        "-r",
        "--release-version",
        metavar="V",
        help="release that sets the cluster's metadata.version, such as 3.9 (default: the latest)",
    )
    parser.add_argument(
        "-f",
        "--feature",
        metavar="NAME=LEVEL",
        action="append",
        default=[],
        help="initial level of a feature; may be repeated",
    )
    # Options of Kafka's tool that `jbod-storage` refuses.
    parser.set_defaults(add_scram=[], standalone=False, initial_controllers=None)


def _format(options: Namespace, _: Output) -> int:
    from storage_tool import format_command

    return format_command.run(options)


def _add_info(parser: Parser) -> None:
    parser.description = (
        "Show how the log directories of a node are formatted.\n"
        "Exit code 0 if they are, 1 if something is wrong with them."
    )
    _add_config(parser)


def _info(options: Namespace, output: Output) -> int:
    from storage_tool import info

    found = info.look(options.config)
    output.result(found.as_json(), found.text())
    return 1 if found.problems else 0


def _add_verify(parser: Parser) -> None:
    parser.description = (
        "Read all segments in log directories of this machine, and report damage.\n"
        "The broker may run meanwhile. Exit code 0 if nothing is damaged, 1 if something is.\n"
        "`jbodlab storage repair` takes the JSON."
    )
    parser.add_argument("directories", nargs="+", metavar="DIR", help="log directory")
    parser.add_argument(
        "--topic", action="append", default=[], help="only this topic; may be repeated"
    )
    parser.add_argument(
        "--rate",
        type=_rate,
        default=RATE_MB_S,
        metavar="MB/S",
        help=f"how fast to read (default: {RATE_MB_S:g})",
    )


def _verify(options: Namespace, output: Output) -> int:
    from storage_tool import verify

    return verify.run(options, output)


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise ArgumentTypeError(f"expected MB/s above 0, got {text!r}")
    return rate


def _add_dump(parser: Parser) -> None:
    parser.description = (
        "Print what is in segments, snapshots, indexes and producer snapshots, line by line as\n"
        "Kafka's kafka-dump-log.sh; with --output json one object a line.\n"
        "Exit code 1 if something could not be read; everything else is printed all the same."
    )
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help="such as 00000000000000000000.log")
    add("--cluster-metadata-decoder", action="store_true", help="read records of the metadata log")
    add(
        "--show-secrets",
        action="store_true",
        help="print salts and keys of users, and passwords in configs; else (redacted)",
    )
    add("--offsets-decoder", action="store_true", help="read records of __consumer_offsets")
    add(
        "--transaction-log-decoder",
        action="store_true",
        help="read records of __transaction_state",
    )
    add("--print-data-log", action="store_true", help="print keys and payloads of records")
    add("--deep-iteration", action="store_true", help="print records, not only batches")
    add("--skip-record-metadata", action="store_true", help="of records, print only the payload")
    for name in ("key", "value"):
        add(
            f"--{name}-decoder-class",
            metavar="CLASS",
            help="StringDecoder (default), IntegerDecoder or LongDecoder",
        )
    add("--index-sanity-check", action="store_true", help="check indexes as a starting broker does")
    add("--verify-index-only", action="store_true", help="compare indexes, print no entries")
    add("--max-bytes", type=_size, metavar="BYTES", help="read at most so much of each log")


def _dump(options: Namespace, output: Output) -> int:
    from storage_tool import dump_log

    return dump_log.run(options, output)


def _add_explain(parser: Parser) -> None:
    parser.description = (
        "Show what the fields of a record mean, and in which of its versions they are.\n"
        "Without TYPE: the types of all records of the metadata log and of __consumer_offsets."
    )
    parser.add_argument(
        "type",
        nargs="?",
        metavar="TYPE",
        help="as `storage dump` prints it, such as PARTITION_RECORD, or 1 for a committed offset",
    )


def _explain(options: Namespace, output: Output) -> int:
    from storage_tool import explain

    explain.run(options.type, output)
    return 0


def _size(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) <= SIZE_MAX):
        raise ArgumentTypeError(f"expected a number of bytes from 0 to {SIZE_MAX}, got {text!r}")
    return int(text)


VERBS = {
    "format": Command(
        help="format the log directories of a node",
        arguments=_add_format,
        run=_format,
        examples=("storage format --config server.properties --cluster-id 4L6g3nShT-eMCtK--X86sw",),
    ),
    "info": Command(
        help="show how the log directories of a node are formatted",
        arguments=_add_info,
        run=_info,
        prints="StorageInfo",
        examples=("storage info --config server.properties",),
    ),
    "verify": Command(
        help="find damage in log directories",
        arguments=_add_verify,
        run=_verify,
        prints="Verified",
        examples=(
            "storage verify /data/d1 /data/d2",
            "storage verify /data/d1 --topic orders --output json > found.json",
        ),
    ),
    "dump": Command(
        help="print what is in the files of a log",
        arguments=_add_dump,
        run=_dump,
        prints="DumpedLine",
        examples=(
            "storage dump --cluster-metadata-decoder meta/__cluster_metadata-0/*.log",
            "storage dump --print-data-log /data/d1/orders-0/00000000000000000000.log",
        ),
    ),
    "explain": Command(
        help="show what the fields of a record mean",
        arguments=_add_explain,
        run=_explain,
        prints="list of RecordType or list of RecordField",
        examples=("storage explain PARTITION_RECORD", "storage explain 1"),
    ),
}

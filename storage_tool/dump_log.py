"""jbod-dump-log: what is in the files of a log, as Kafka's `kafka-dump-log.sh` prints it.

Options and lines follow Kafka's tool; `--json` prints one object a line instead. Files are read in
blocks, so their size does not matter.

Exit codes: 0 success; 1 for wrong arguments, for a file that cannot be opened, and when something
in a file could not be read. Each such thing is one line on the standard error output, and the rest
is printed all the same. What Kafka's tool tells in passing changes no exit code: a wrong CRC, bytes
behind the last batch, an index that does not agree.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from jbodlab.command_line import INTERRUPTED, drop_output
from jbodlab.errors import DecodeError, FormatError
from jbodlab.log import names
from storage_tool.dump import contents, dialect
from storage_tool.dump import logs as log_files
from storage_tool.dump.contents import Contents, MetadataContents, PlainContents
from storage_tool.dump.group_contents import GroupContents
from storage_tool.dump.indexes import IndexDump, IndexOptions
from storage_tool.dump.logs import LogDump, LogOptions
from storage_tool.dump.options import DEFAULT_DECODER, UNSUPPORTED, DumpParser, parser
from storage_tool.dump.paths import shown_path
from storage_tool.dump.producers import dump_producers
from storage_tool.dump.report import JsonReport, OutputError, Report, TextReport

BROKEN_PIPE = 141
"""Exit code of a program that a closed pipe ends."""


def main(argv: Sequence[str] | None = None) -> int:
    """Dump files; returns the exit code."""
    if hasattr(sys.stdout, "reconfigure"):
        # Payloads are text of any language, and names of files need not be text at all.
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    arguments = parser()
    options = arguments.parse_args(argv)
    if options.version:
        print(metadata.version("jbodlab"))
        return 0
    _check(arguments, options)
    try:
        return _run(options)
    except FormatError as error:
        print(error, file=sys.stderr)
        return 1
    except OutputError as error:
        print(error, file=sys.stderr)
        drop_output()
        return 1
    except BrokenPipeError:
        drop_output()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        drop_output()
        return INTERRUPTED


def _check(arguments: DumpParser, options: argparse.Namespace) -> None:
    """End the program if the arguments are none that can be followed."""
    if options.help:
        arguments.print_help(sys.stderr)
        arguments.exit(1)
    if options.files is None:
        arguments.error('Missing required argument "[files]"')
    for option, topic in UNSUPPORTED:
        if getattr(options, option.lstrip("-").replace("-", "_")):
            arguments.exit(1, f"{option} is not supported: records of {topic} are not decoded\n")


def _run(options: argparse.Namespace) -> int:
    """Dump file after file.

    Raises:
        FormatError: a decoder or release that is not known.
    """
    report: Report
    if options.json:
        report = JsonReport(sys.stdout, sys.stderr)
    else:
        report = TextReport(
            sys.stdout, sys.stderr, skip_record_metadata=options.skip_record_metadata
        )
    release = options.kafka_release
    found = _contents(options)
    logs = LogDump(
        report,
        LogOptions(
            deep=options.deep_iteration or found is not None,
            contents=found,
            skip_record_metadata=options.skip_record_metadata,
            as_json=options.json,
            bytes_max=options.max_bytes,
            dialect=None if release is None else dialect.of_release(release),
        ),
    )
    indexes = IndexDump(
        report,
        IndexOptions(
            sanity_check=options.index_sanity_check, verify_only=options.verify_index_only
        ),
    )
    for given in options.files.rstrip(",").split(","):
        shown = shown_path(given)
        try:
            _dump(report, logs, indexes, shown, Path(given))
        except BrokenPipeError:
            raise
        except OSError as error:
            report.problem(shown, f"cannot be read: {error.strerror}")
        except DecodeError as error:
            report.problem(shown, str(error))
    report.flush()
    return int(report.damaged)


def _contents(options: argparse.Namespace) -> Contents | None:
    """Return how payloads are read, `None` if they are not."""
    if options.cluster_metadata_decoder:
        return MetadataContents()
    if options.offsets_decoder:
        return GroupContents()
    chosen = (options.key_decoder_class, options.value_decoder_class)
    if options.print_data_log or any(chosen):
        key, value = (contents.plain_decoder(name or DEFAULT_DECODER) for name in chosen)
        return PlainContents(key, value)
    return None


def _dump(report: Report, logs: LogDump, indexes: IndexDump, shown: str, path: Path) -> None:
    _, dot, ending = path.name.rpartition(".")
    match dot + ending:
        case names.LOG_SUFFIX | log_files.CHECKPOINT_SUFFIX:
            logs.dump(shown, path)
        case names.INDEX_SUFFIX:
            indexes.dump_offsets(shown, path)
        case names.TIME_INDEX_SUFFIX:
            indexes.dump_times(shown, path)
        case names.SNAPSHOT_SUFFIX:
            dump_producers(report, shown, path)
        case names.TXN_INDEX_SUFFIX:
            indexes.dump_aborted(shown, path)
        case _:
            report.file(shown, "unknown")
            report.unknown_file(shown)


if __name__ == "__main__":
    sys.exit(main())

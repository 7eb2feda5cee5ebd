"""`jbodlab storage dump`: the files of a log, as Kafka's `kafka-dump-log.sh` prints them.

Files are read in blocks, so their size does not matter. Findings that Kafka's tool only prints do
not change the exit code: a wrong CRC, bytes behind the last batch, an index mismatch.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from jbodlab.cli.command_line import drop_output
from jbodlab.cli.output import Output
from jbodlab.storage.directory import names
from jbodlab.transaction_records import records as transaction_records
from jbodlab.vocabulary.errors import DecodeError
from storage_tool.dump import contents
from storage_tool.dump import logs as log_files
from storage_tool.dump.contents import Contents, MetadataContents, PlainContents
from storage_tool.dump.coordinator_contents import CoordinatorContents
from storage_tool.dump.group_contents import GroupContents
from storage_tool.dump.indexes import IndexDump, IndexOptions
from storage_tool.dump.logs import LogDump, LogOptions
from storage_tool.dump.paths import shown_path
from storage_tool.dump.producers import dump_producers
from storage_tool.dump.report import JsonReport, OutputError, Report, TextReport

DEFAULT_DECODER = "org.apache.kafka.tools.api.StringDecoder"


def run(options: Namespace, output: Output) -> int:
    """Dump files; returns 1 if a part of them could not be read, else 0.

    Raises:
        FormatError: a decoder is unknown.
    """
    if hasattr(sys.stdout, "reconfigure"):
        # Payloads are text of any language, and names of files need not be valid text.
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    try:
        return _dump_all(options, as_json=output.is_json)
    except OutputError as error:
        output.note(f"jbodlab: {error}")
        drop_output()
        return 1


def _dump_all(options: Namespace, *, as_json: bool) -> int:
    report: Report
    if as_json:
        report = JsonReport(sys.stdout, sys.stderr)
    else:
        report = TextReport(
            sys.stdout, sys.stderr, skip_record_metadata=options.skip_record_metadata
        )
    found = _contents(options)
    logs = LogDump(
        report,
        LogOptions(
            deep=options.deep_iteration or found is not None,
            contents=found,
            skip_record_metadata=options.skip_record_metadata,
            as_json=as_json,
            bytes_max=options.max_bytes,
        ),
    )
    indexes = IndexDump(
        report,
        IndexOptions(
            sanity_check=options.index_sanity_check, verify_only=options.verify_index_only
        ),
    )
    for given in options.files:
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


def _contents(options: Namespace) -> Contents | None:
    """Return how payloads are read, `None` if they are not."""
    if options.cluster_metadata_decoder:
        return MetadataContents(shows_secrets=options.show_secrets)
    if options.offsets_decoder:
        return GroupContents()
    if options.transaction_log_decoder:
        return CoordinatorContents(transaction_records.decode)
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

"""jbod-storage: `info`, `format`, `version-mapping`, `feature-dependencies`, `random-uuid`.

Options, messages and exit codes follow `kafka-storage.sh`. Exit codes: 0 success; 1 for `info` with
problems, for wrong arguments, and for every failure, which is one line on the standard error
output. Each command imports only what it needs, so that `random-uuid` answers at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial

from jbodlab.cli.command_line import until_closed
from storage_tool.arguments import parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    return until_closed(partial(_run, argv))


def _run(argv: Sequence[str] | None) -> int:
    options = parser().parse_args(argv)
    if options.command == "random-uuid":
        from jbodlab.vocabulary import kafka_uuid

        print(kafka_uuid.to_text(kafka_uuid.random_uuid(os.urandom)))
        return 0

    from jbodlab.vocabulary.errors import JbodlabError

    try:
        match options.command:
            case "info":
                from storage_tool import info

                return info.run(options.config)
            case "format":
                from storage_tool import format_command

                return format_command.run(options)
            case "version-mapping":
                from storage_tool import features

                features.print_mapping(options.release_version)
            case _:
                from storage_tool import features

                features.print_dependencies(options.feature)
    except JbodlabError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

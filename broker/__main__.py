"""`jbod-broker -c FILE`: run a broker until SIGTERM; `--health` asks one whether it serves."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from broker.bounds.resources import raise_open_files_limit
from broker.config import BrokerConfig, load
from jbodlab.cli.command_line import ToolParser
from jbodlab.runtime import log_lines
from jbodlab.runtime.event_loop import new_event_loop
from jbodlab.server.malloc import tune_malloc
from jbodlab.vocabulary.errors import JbodlabError

SWITCH_INTERVAL_S = 0.0005
"""So long one thread may keep the others from running Python; clients wait for the event loop."""
GARBAGE_THRESHOLD = 20_000
"""So many new objects are looked through at a time: a request makes dozens, and no cycles."""

logger = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the program; ends the process with its exit code.

    A thread that hangs in a call of a dead disk would keep an ordinary end waiting for ever.
    """
    code = run(arguments)
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code."""
    options = _parser().parse_args(arguments)
    log_lines.set_up()
    # gRPC would write to standard error what is said there in one line already.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        config = load(Path(options.config))
        if options.health:
            return _health(config)
        _serve(config)
    except (JbodlabError, OSError) as error:
        # Threads may still be loading from disks: nothing they say comes behind this line.
        logging.disable()
        print(f"jbod-broker: {error}", file=sys.stderr)  # noqa: T201 - the one line
        return 1
    logger.info("stopped")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = ToolParser(prog="jbod-broker", description="Run a broker.")
    parser.add_argument(
        "-c", "--config", required=True, metavar="FILE", help="property file of the broker"
    )
    parser.add_argument(
        "--health",
        action="store_true",
        help="check whether the running broker serves clients, and exit",
    )
    return parser


def _health(config: BrokerConfig) -> int:
    from broker.health import serves_clients
    from jbodlab.config.node_config import node_config

    serves, line = serves_clients(node_config(config.values), config.peers)
    print(line)  # noqa: T201 - what was asked for
    return 0 if serves else 1


def _serve(config: BrokerConfig) -> None:
    raise_open_files_limit()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_run_server(config))


async def _run_server(config: BrokerConfig) -> None:
    # Imported modules and loaded state stay; to look for garbage in them again and again takes a
    # tenth of the start. See `_settle_memory`.
    gc.disable()
    # Imported here, so that a wrong setting is refused at once.
    from broker.server import BrokerServer

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await BrokerServer(config, before_serving=_settle_memory).run(stop)


def _settle_memory() -> None:
    """Prepare the memory of this process for its work, when all is imported and loaded."""
    # Objects that exist now live as long as the process: collections need not look at it again. The
    # allocator is tuned only now, or it would keep what the imports needed and gave back.
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_THRESHOLD, 20, 20)
    tune_malloc()


if __name__ == "__main__":
    main()

"""`jbod-controller -c FILE`: run a controller until SIGTERM; `--health` asks one how it is."""

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

from controller.config import ControllerConfig, controller_config
from jbodlab.cli.command_line import ToolParser, read_properties
from jbodlab.config import kafka_configs, key_table
from jbodlab.runtime import log_lines
from jbodlab.runtime.event_loop import new_event_loop
from jbodlab.vocabulary.errors import JbodlabError

logger = logging.getLogger(__name__)

GARBAGE_THRESHOLD = 50_000
"""New objects after which the youngest are searched for cycles."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code."""
    options = _parser().parse_args(arguments)
    log_lines.set_up()
    # gRPC would write to standard error what is said there in one line already.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        config, unknown = controller_config(read_properties(Path(options.config)))
        if options.health:
            return _health(config)
        for name in unknown:
            logger.warning("%s", key_table.unknown_text(kafka_configs.NODE, name))
        for key in key_table.without_effect(kafka_configs.NODE, config.static_configs):
            logger.warning("configuration %s is %s", key.name, key.meaning)
        return _run(config)
    except (JbodlabError, OSError) as error:
        print(f"jbod-controller: {error}", file=sys.stderr)  # noqa: T201 - the one line
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = ToolParser(prog="jbod-controller", description="Run the controller of a cluster.")
    parser.add_argument(
        "-c", "--config", required=True, metavar="FILE", help="property file of the controller"
    )
    parser.add_argument(
        "--health",
        action="store_true",
        help="check whether the running controller is active, and exit",
    )
    return parser


def _health(config: ControllerConfig) -> int:
    from controller.health import serves_brokers

    serves, line = serves_brokers(config.node, config.tls)
    print(line)  # noqa: T201 - what was asked for
    return 0 if serves else 1


def _run(config: ControllerConfig) -> int:
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve(config))
    return 0


async def _serve(config: ControllerConfig) -> None:
    # Imported modules stay: to look for garbage in it again and again takes time.
    gc.disable()
    # Imported here, so that a wrong setting is refused at once.
    from controller.server import ControllerServer

    gc.enable()
    # Images are large and have no cycles; looking for some would cost more than all the rest of
    # a decision about thousands of partitions.
    gc.freeze()
    gc.set_threshold(GARBAGE_THRESHOLD, 50, 100)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await ControllerServer(config).run(stop)
    logger.info("stopped")


if __name__ == "__main__":
    sys.exit(main())

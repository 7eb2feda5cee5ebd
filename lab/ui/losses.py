"""The page of what a loss would take: `jbodlab what-if`, a process of its own, one at a time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from signal import SIGKILL

DEADLINE_S = 60.0
ENDED_DEADLINE_S = 10.0
REASON_CHARS = 300


class LossesError(Exception):
    """There is no page; the text is one line."""


class LossesPage:
    """Makes the page anew for each question.

    Args:
        command: Prints the page.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._one = asyncio.Lock()

    async def html(self) -> bytes:
        """Return the page.

        Raises:
            LossesError: the command failed, or did not end in time.
        """
        async with self._one:
            child = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
            try:
                async with asyncio.timeout(DEADLINE_S):
                    page, said = await child.communicate()
            except TimeoutError:
                raise LossesError(f"no answer within {DEADLINE_S:g} s") from None
            finally:
                if child.returncode is None:
                    os.killpg(child.pid, SIGKILL)
                    async with asyncio.timeout(ENDED_DEADLINE_S):
                        await child.wait()
        if child.returncode:
            lines = said.decode(errors="replace").strip().splitlines() or ["it has failed"]
            raise LossesError(lines[-1][:REASON_CHARS])
        return page

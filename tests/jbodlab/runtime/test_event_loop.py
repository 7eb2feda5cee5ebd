"""The event loop of the servers is uvloop's where that is installed."""

from __future__ import annotations

import sys
from asyncio import SelectorEventLoop

import pytest

from jbodlab.runtime.event_loop import new_event_loop


@pytest.mark.parametrize("is_installed", [True, False])
def test_a_server_takes_uvloops_event_loop_if_it_is_installed(
    monkeypatch: pytest.MonkeyPatch, is_installed: bool
) -> None:
    if not is_installed:
        monkeypatch.setitem(sys.modules, "uvloop", None)

    loop = new_event_loop()
    loop.close()

    assert isinstance(loop, SelectorEventLoop) is not is_installed
    assert type(loop).__module__.startswith("uvloop") is is_installed

from __future__ import annotations

import sys

import pytest

from broker.network.malloc import tune_malloc


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc has these settings")
def test_the_c_library_takes_the_settings() -> None:
    assert tune_malloc()

from __future__ import annotations

import io
import sys

import pytest

from admin_tool import users


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_the_end_of_a_line_is_no_part_of_a_password(
    end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f" ge heim {end}", newline=""))

    assert users._password("alice") == " ge heim "

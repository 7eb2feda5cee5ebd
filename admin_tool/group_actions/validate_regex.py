"""jbod-consumer-groups --validate-regex."""

from __future__ import annotations

import re2

from admin_tool.errors import AdminError
from admin_tool.options import Parsed


def run(options: Parsed) -> int:
    """Say whether an expression is valid; returns the exit code.

    Raises:
        AdminError: it is not.
    """
    expression = options.required("validate-regex")
    try:
        # Without options it would also print what is wrong.
        re2.compile(expression, _quiet())
    except re2.error as error:
        text = error.args[0]
        why = text.decode() if isinstance(text, bytes) else text
        raise AdminError(f"The regular expression `{expression}` is invalid: {why}.") from error
    print(f"The regular expression `{expression}` is valid.")
    return 0


def _quiet() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    return options

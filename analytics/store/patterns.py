"""Places by patterns: `s3a://bucket/*/__cluster_metadata-0`, `logs/node-[123].tar.gz`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from analytics.store.log_files import child, local_path, open_files

_MAGIC = re.compile(r"[*?\[]")
_HEAD = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+://[^/]*|/)?(.*)$", re.DOTALL)


def is_pattern(source: str) -> bool:
    """Return whether a path or URI may name several places; a file of that very name is none."""
    local = local_path(source)
    return bool(_MAGIC.search(source)) and not (local is not None and local.exists())


def expand(source: str) -> tuple[str, ...]:
    """Return the places that a path or URI names, in order.

    Args:
        source: `*`, `?` and `[...]` stand for names or parts of names, never for a slash.

    Raises:
        OSError: a file system cannot be reached.
        ValueError: there is no such file system.
    """
    if not is_pattern(source):
        return (source,)
    found = _HEAD.fullmatch(source)
    assert found is not None
    head, parts = found[1] or "", [part for part in found[2].split("/") if part]
    fixed = next(i for i, part in enumerate(parts) if _MAGIC.search(part))
    above = "/".join(parts[:fixed])
    start = f"{head}/{above}" if "://" in head else f"{head}{above}" or "."
    return tuple(_matching(start, parts[fixed:]))


def _matching(folder: str, parts: Sequence[str]) -> Iterator[str]:
    """Yield what is below a folder, name by name."""
    head, *rest = parts
    try:
        entries = open_files(folder).entries()
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in sorted(entries):
        # As in a shell, a pattern does not mean what is hidden.
        if not fnmatchcase(name, head) or (name.startswith(".") and not head.startswith(".")):
            continue
        if not rest:
            yield child(folder, name)
        elif entries[name] is None:
            yield from _matching(child(folder, name), rest)

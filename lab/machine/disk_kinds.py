"""The kinds of disks that a cluster may have, and those that have a size."""

from __future__ import annotations

TMPFS, LOOP, FUSE, FOLDER = "tmpfs", "loop", "fuse", "folder"
KINDS = (FOLDER, TMPFS, LOOP, FUSE)
SIZED = (TMPFS, LOOP)
"""Kinds of disks that end somewhere."""

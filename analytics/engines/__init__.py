"""The names of the engines that carry out a replay."""

from __future__ import annotations

SPARK, LOCAL = "spark", "local"

"""Prints what the product depends on, with the extras named as arguments, a requirement a line.

What these are decides about the layers of the images that take long to make; the rest of
pyproject.toml, which changes more often, does not.
"""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]
extras = (project["optional-dependencies"][extra] for extra in sys.argv[1:])
print("\n".join(sum(extras, start=project["dependencies"])))  # noqa: T201 - its purpose

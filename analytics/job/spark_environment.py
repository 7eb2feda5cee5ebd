"""Effects of a user's environment on a start of Spark, in one sentence where it fails.

Spark reads variables and a file of defaults that were set for other programs. Those that ask for
another kind of session are refused before the start; what fails during it is told by its cause, and
by the variables and the file that had a part in it. Output of Java meanwhile is held back: where
the start fails, it is a page of traces.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from analytics.errors import ReplayInputError

OTHERWISE = "or replay with --engine local"
CONNECT = ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
"""Each of them, if set, asks for a client of Spark Connect, which has no Java of its own."""
MODE = "SPARK_API_MODE"
READ = (
    *("PYSPARK_SUBMIT_ARGS", "SPARK_HOME", "SPARK_CONF_DIR", "SPARK_SUBMIT_OPTS"),
    *("SPARK_DIST_CLASSPATH", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"),
    *("HADOOP_CONF_DIR", "SPARK_LOCAL_DIRS", "PYSPARK_GATEWAY_PORT"),
)
"""Variables of others that Spark or Java reads while it starts."""

_REASON = re.compile(
    r"(?:^|Caused by: |: )((?:[\w$]+\.)+[\w$]*(?:Exception|Error)\b.*"
    r"|Error: (?!Could not create the Java|A fatal exception).*)"
)
_UNUSABLE = re.compile(r"(Unrecognized|Invalid|Unsupported|Could not|Conflicting).*")


def refusal(variables: Mapping[str, str], package: Path) -> str:
    """Return why Spark is not started in an environment, as one sentence; empty if it may be.

    Args:
        variables: The environment.
        package: The folder of PySpark, which is Spark's own where SPARK_HOME names no other.
    """
    home = variables.get("SPARK_HOME")
    if home and not (Path(home) / "bin" / "spark-submit").exists():
        return f"SPARK_HOME {home} has no bin/spark-submit: unset it, {OTHERWISE}"
    file = defaults_file(variables, package)
    asked = [f"{name} is set" for name in CONNECT if variables.get(name)]
    if variables.get(MODE, "").lower() == "connect":
        asked.append(f"{MODE} is connect")
    for key, value in _defaults(file).items():
        if key == "spark.remote" or (key, value.lower()) == ("spark.api.mode", "connect"):
            asked.append(f"{key} is set in {file}")
    if asked:
        return f"{asked[0]}, and a replay does not run over Spark Connect: unset it, {OTHERWISE}"
    return ""


def failure(reason: str, said: str, variables: Mapping[str, str], package: Path) -> str:
    """Return why a start has failed, as one sentence.

    Args:
        reason: Error that PySpark has raised.
        said: Text that Java has printed.
        variables: The environment.
        package: As above.
    """
    cause = _cause(f"{said}\n{reason}") or next(iter(reason.splitlines()), "it says nothing")
    file = defaults_file(variables, package)
    known = _defaults(file)
    guilty = [key for key, value in known.items() if _is_named(value, cause)]
    suspects = [f"{key} in {file}" for key in guilty]
    suspects = suspects or [name for name in READ if variables.get(name)]
    if known and not guilty:
        suspects.append(str(file))
    if not suspects:
        return f"Spark does not start: {cause}"
    return f"Spark does not start: {cause}; see {', '.join(suspects)}, {OTHERWISE}"


def defaults_file(variables: Mapping[str, str], package: Path) -> Path:
    """Return the file with Spark's own settings; there may be none."""
    home = Path(variables.get("SPARK_HOME") or package)
    return Path(variables.get("SPARK_CONF_DIR") or home / "conf") / "spark-defaults.conf"


def check(package: Path) -> None:
    """Check that the environment asks for no other session.

    Raises:
        ReplayInputError: it does.
    """
    if reason := refusal(os.environ, package):
        raise ReplayInputError(reason)


@contextmanager
def explained(package: Path) -> Iterator[None]:
    """Start Spark in a block; whatever fails there is one sentence.

    Raises:
        ReplayInputError: Spark does not start.
    """
    held = _Held()
    try:
        yield
    except Exception as error:
        said = held.end(is_shown=False)
        raise ReplayInputError(failure(str(error), said, os.environ, package)) from error
    except BaseException:
        held.end(is_shown=False)
        raise
    held.end(is_shown=True)


_ENDS_WITHIN_S = 1.0


class _Held:
    """Holds back what Java prints; afterwards it is passed on as long as there is Java."""

    def __init__(self) -> None:
        sys.stderr.flush()
        reader, writer = os.pipe()
        self._stderr = os.dup(2)
        os.dup2(writer, 2)
        os.close(writer)
        self._lock = threading.Lock()
        self._said = b""
        self._is_shown = False
        self._thread = threading.Thread(target=self._read, args=(reader,), daemon=True)
        self._thread.start()

    def end(self, *, is_shown: bool) -> str:
        """Give this process its standard error back; returns what was printed."""
        sys.stderr.flush()
        os.dup2(self._stderr, 2)
        if not is_shown:
            # It ends with its last writer, and one that does not start is about to.
            self._thread.join(_ENDS_WITHIN_S)
        with self._lock:
            self._is_shown = is_shown
            if is_shown:
                os.write(self._stderr, self._said)
            return self._said.decode("utf-8", "replace")

    def _read(self, reader: int) -> None:
        while data := os.read(reader, 1 << 16):
            with self._lock:
                if self._is_shown:
                    # The reader may have gone.
                    with suppress(OSError):
                        os.write(self._stderr, data)
                else:
                    self._said += data
        os.close(reader)


def _defaults(file: Path) -> dict[str, str]:
    """Return the settings of a file of defaults; none where it cannot be read."""
    try:
        lines = file.read_text("utf-8", "replace").splitlines()
    except OSError:
        return {}
    pairs = (re.split(r"[\s=:]+", line.strip(), maxsplit=1) for line in lines)
    return {key: "".join(rest).strip() for key, *rest in pairs if key and key[0] != "#"}


def _is_named(value: str, cause: str) -> bool:
    parts = (part.strip().removeprefix("file:").rstrip("/") for part in value.split(","))
    return any(len(part) > len("true") and part in cause for part in parts)


def _cause(text: str) -> str:
    """Return the innermost reason in the output of a Java program, without its trace."""
    lines = [line.strip() for line in text.splitlines() if not line.lstrip().startswith("at ")]
    found = [match[1] for line in lines if (match := _REASON.search(line))]
    if found:
        return found[-1]
    return next((line for line in lines if _UNUSABLE.match(line)), "")

"""Command lines as Kafka's tools read them: `--name value` or `--name=value`, no abbreviations.

Kafka's tools differ from `argparse` in what they accept and in every text that they print, so that
there is nothing to inherit: an option is given once or, where it may be repeated, many times; a
value may begin with a dash; words without dashes are commands.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from admin_tool.errors import UsageError

USAGE_WIDTH = 100
NAME_WIDTH = 42


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option; without a name for its value it is a flag.

    Attributes:
        is_optional: Whether the value may be left out; then it is the empty text.
    """

    name: str
    help: str
    value: str = ""
    repeatable: bool = False
    is_optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """What was given: the values of each option (none for a flag), and the other words."""

    values: Mapping[str, tuple[str, ...]]
    words: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        """Return whether the option was given."""
        return name in self.values

    @property
    def bootstrap_server(self) -> str:
        """The address of the cluster."""
        return self.required("bootstrap-server")

    @property
    def client_config(self) -> str | None:
        """The file with the client's properties."""
        return self.text("command-config")

    def text(self, name: str) -> str | None:
        """Return the value of an option that is given at most once."""
        found = self.values.get(name)
        return found[0] if found else None

    def required(self, name: str) -> str:
        """Return the value of an option that must be there.

        Raises:
            UsageError: it is not.
        """
        self.require(name)
        return self.values[name][0]

    def texts(self, name: str) -> tuple[str, ...]:
        """Return every value of an option that may be repeated."""
        return self.values.get(name, ())

    def number(self, name: str) -> int | None:
        """Return the value as a number; None where the option is absent.

        Raises:
            UsageError: it is no number.
        """
        text = self.text(name)
        if text is None:
            return None
        try:
            return int(text)
        except ValueError:
            raise UsageError(f"Cannot parse argument '{text}' of option {name}") from None

    def require(self, *names: str) -> None:
        """Insist on options.

        Raises:
            UsageError: one is missing.
        """
        for name in names:
            if name not in self.values:
                raise UsageError(f'Missing required argument "[{name}]"')

    def exclude(self, name: str, others: Iterable[str]) -> None:
        """Refuse options beside another one.

        Raises:
            UsageError: two of them were given that exclude each other.
        """
        if name not in self.values:
            return
        for other in others:
            if other in self.values:
                raise UsageError(f'Option "[{name}]" can\'t be used with option "[{other}]"')


def parse(arguments: Sequence[str], options: Iterable[Option]) -> Parsed:
    """Read a command line.

    Raises:
        UsageError: an option is unknown, lacks its value, or is given twice.
    """
    known = {option.name: option for option in options}
    values: dict[str, tuple[str, ...]] = {}
    words: list[str] = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if not argument.startswith("--"):
            words.append(argument)
            continue
        name, separator, value = argument[2:].partition("=")
        option = known.get(name)
        if option is None:
            raise UsageError(f"{name} is not a recognized option")
        if option.value and not separator:
            if option.is_optional and (not rest or rest[0].startswith("--")):
                value = ""
            elif not rest:
                raise UsageError(f"Option {name} requires an argument")
            else:
                value = rest.pop(0)
        elif separator and not option.value:
            raise UsageError(f"Option {name} takes no argument")
        if name in values and option.value and not option.repeatable:
            raise UsageError(
                f"Found multiple arguments for option {name}, but you asked for only one"
            )
        values[name] = (*values.get(name, ()), value) if option.value else ()
    return Parsed(values=values, words=tuple(words))


def usage(options: Iterable[Option]) -> str:
    """Return a table of the options, in the order of their names."""
    lines = [f"{'Option':<{NAME_WIDTH}}Description", f"{'------':<{NAME_WIDTH}}-----------"]
    for option in sorted(options, key=lambda option: option.name):
        shown = f"[{option.value}]" if option.is_optional else f"<{option.value}>"
        head = f"--{option.name}" + (f" {shown}" if option.value else "")
        text = textwrap.wrap(option.help, USAGE_WIDTH - NAME_WIDTH) or [""]
        if len(head) >= NAME_WIDTH:
            lines.append(head)
            head = ""
        lines.append(f"{head:<{NAME_WIDTH}}{text[0]}".rstrip())
        lines.extend(" " * (NAME_WIDTH + 2) + line for line in text[1:])
    return "\n".join(lines)


def comma_list(text: str | None) -> list[str]:
    """Return the parts of a comma list; blanks around them and empty ones do not count."""
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def broker_ids(text: str | None) -> list[int]:
    """Return a comma list of broker ids.

    Raises:
        UsageError: one is no number.
    """
    found = []
    for part in comma_list(text):
        if not (part.isascii() and part.isdecimal()):
            raise UsageError(f"{part!r} is not a broker id")
        found.append(int(part))
    return found


DEFAULT_TIMEOUT_MS = 30_000
"""How long tools try again what passes: groups that load, leaders that move."""


def timeout_ms(options: Parsed) -> int:
    """Return the value of `--timeout`.

    Raises:
        UsageError: it is no number.
    """
    given = options.number("timeout")
    return DEFAULT_TIMEOUT_MS if given is None else given


BOOTSTRAP_SERVER = Option(
    name="bootstrap-server",
    value="host:port,...",
    help="REQUIRED: the brokers to connect to first; one that answers is enough.",
)
COMMAND_CONFIG = Option(
    name="command-config",
    value="file",
    help="Property file with the client's settings: security.protocol, sasl.*, ssl.* (PEM), "
    "request.timeout.ms and the like.",
)
HELP = Option(name="help", help="Print this text.")
VERSION = Option(name="version", help="Print the version.")
COMMON = (BOOTSTRAP_SERVER, COMMAND_CONFIG, HELP, VERSION)

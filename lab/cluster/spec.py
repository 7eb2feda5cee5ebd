"""The one description of a cluster: every setting with its words, its range and its default.

The options of `up`, `demo`, `run` and `rehearse`, the arguments of `@pytest.mark.jbod`, the keys
below `cluster` in a plan with their JSON Schema, what the state file keeps, and the table in
`docs/engines.md` are made from the declarations below. A setting that is only a key of Kafka's for
all nodes says so by `properties`; then nothing else in the lab has to know it.

It imports no message library and no client: helps and the plugin of pytest read it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import Enum, Flag, auto
from typing import TYPE_CHECKING, Any, Self, cast

from jbodlab.cli.output import counted
from lab.cluster.engine import OWN, Engine, EngineError, chosen
from lab.machine.disk_kinds import FUSE, KINDS, LOOP

if TYPE_CHECKING:
    from jbodlab.cli.lab_state import ClusterState


class Security(Enum):
    """How clients reach a closed cluster."""

    SSL = "ssl"
    MTLS = "mtls"
    SASL_SSL = "sasl_ssl"


class On(Flag):
    """The commands that have a setting as an option; `OTHERS` are `run` and `rehearse`."""

    UP = auto()
    DEMO = auto()
    OTHERS = auto()
    ALL = UP | DEMO | OTHERS


class Form(Enum):
    """Form of a setting, by which every door reads and checks it."""

    NUMBER = "a number from 1 on"
    PORT = "a TCP port"
    USER = "the number of a user"
    SIZE = "MiB, or a size with its unit"
    WORD = "one of some words"
    FLAG = "yes or no"
    TEXT = "a text"
    SETTINGS = "Kafka's settings by their names"
    ENGINE = "the name of an engine"


CONTROLLER_ID = 100
"""Id of the first controller; brokers count from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How one setting is said and checked.

    Attributes:
        form: Its form.
        help: Its line in the helps of commands.
        on: The commands that have it.
        option: Name of the option where it is not that of the field.
        metavar: Word that stands for its value in helps.
        most: Largest number in a mark or a plan.
        most_of_option: Largest number on a command line, where the machine is the limit; else
            `most`.
        words: Words that it may be, for `Form.WORD`.
        key: Key of plans below `cluster`, such as `disks.each`; empty where plans do not have it.
        words_of_plan: Words that it may be in a plan, where those differ.
        in_mark: Whether a mark may say it.
        is_kept: Whether the state file has it; what may hold passwords is not kept.
        properties: The keys of Kafka's that its value gives to all nodes.
    """

    form: Form
    help: str
    on: On = On.ALL
    option: str = ""
    metavar: str | None = None
    most: int = 0
    most_of_option: int = 0
    words: tuple[str, ...] = ()
    key: str = ""
    words_of_plan: tuple[str, ...] = ()
    in_mark: bool = True
    is_kept: bool = True
    properties: Callable[[Any], Mapping[str, str]] | None = None


def _setting(default: Any, form: Form, text: str, **more: Any) -> Any:
    declared = {"setting": Setting(form=form, help=text, **more)}
    if isinstance(default, dict):
        return field(default_factory=dict, hash=False, metadata=declared)
    return field(default=default, metadata=declared)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """Description of a cluster that shall be made.

    Attributes:
        disks: Log directories of each broker, each on a disk of its own.
        disk_kind: Kind of its disks, one of `KINDS`; empty: `tmpfs` where that is possible.
        disk_mb: Most that one disk holds, in MiB.
        uid: User that the servers run as, where this is root.
        engine: Engine that the nodes run; None until somebody has chosen: our own servers.
        config: Kafka's settings for all nodes.
        jvm_options: Options of the JVM, as in a shell.
        combined: Whether every broker is a controller as well.
        security: How clients reach it, one of `Security`; empty where it is open.
        port_base: Port of the controller, the brokers' follow; None: any that are free.
        advertise: Addresses of a second listener of each broker, as clients elsewhere reach it.
        mechanism: Mechanism that can break calls of the brokers; `none`, or `auto` for `preload`
            where this machine has it.
    """

    brokers: int = _setting(
        3, Form.NUMBER, "default: 3", on=On.UP, metavar="N", most=20, most_of_option=100_000,
        key="brokers",
    )  # fmt: skip
    disks: int = _setting(
        3, Form.NUMBER, "disks of each broker, with a log directory each (default: 3)", on=On.UP,
        metavar="N", most=64, most_of_option=100_000, key="disks.each",
    )  # fmt: skip
    disk_kind: str = _setting(
        "", Form.WORD, "kind of the disks (default: tmpfs where root may mount)",
        on=On.UP | On.DEMO, option="--kind", words=KINDS, key="disks.kind", in_mark=False,
    )  # fmt: skip
    disk_mb: int = _setting(
        512, Form.SIZE, "size of each disk: a number of MiB, or 256MiB (default: 512)",
        on=On.UP | On.DEMO, option="--size", metavar="SIZE", key="disks.size", in_mark=False,
    )  # fmt: skip
    uid: int | None = _setting(
        None, Form.USER, "user that runs the servers, if you are root (default: 1500)",
        on=On.UP | On.DEMO, in_mark=False, is_kept=False,
    )  # fmt: skip
    engine: Engine | None = _setting(  # noqa: RUF009 - it makes a field
        None, Form.ENGINE, "jbodlab, kafka:RELEASE such as kafka:4.3.1, or kafka:FOLDER of a "
        "distribution (default: $JBODLAB_ENGINE, else jbodlab)", metavar="ENGINE", key="engine",
    )  # fmt: skip
    config: Mapping[str, str] = _setting(
        {}, Form.SETTINGS, "a setting of all nodes, under Kafka's name; may be repeated",
        metavar="KEY=VALUE", key="config", is_kept=False,
    )  # fmt: skip
    jvm_options: str = _setting(
        "", Form.TEXT, "options of the JVM, such as '-Xmx1g' (kafka engines)", metavar="OPTIONS",
        key="jvm_options",
    )  # fmt: skip
    controllers: int = _setting(
        1, Form.NUMBER, "how many (default: 1)", metavar="N", most=7,
        key="controllers",
    )  # fmt: skip
    combined: bool = _setting(
        False, Form.FLAG, "every broker is a controller as well (kafka engines)", key="combined"
    )  # fmt: skip
    security: str = _setting(
        "", Form.WORD, "close the cluster: ssl (clients only encrypt), mtls (they show "
        "certificates), or sasl_ssl (they log in)", metavar="SECURITY", key="security",
        words=tuple(each.value for each in Security),
    )  # fmt: skip
    port_base: int | None = _setting(
        None, Form.PORT, "port of the controller; the brokers have the next ones (default: free "
        "ports)", on=On.UP, metavar="PORT", in_mark=False,
    )  # fmt: skip
    advertise: str = _setting(
        "", Form.TEXT, "addresses of the brokers for clients elsewhere, one of each or the first "
        "of a row of ports: HOST:PORT, or HOST:PORT=PORT_HERE behind a mapped port", on=On.UP,
        metavar="ADDRESSES", in_mark=False,
    )  # fmt: skip
    mechanism: str = _setting(
        "auto", Form.WORD, "how faults in single calls are made (default: the first way that "
        "works)", on=On.UP, words=("auto", "preload", "none"), key="mechanism", in_mark=False,
        words_of_plan=("auto", "preload", LOOP, FUSE),
    )  # fmt: skip

    @property
    def runs(self) -> Engine:
        """Engine that the nodes run: our own servers where none is chosen."""
        return self.engine or OWN

    @property
    def controller_count(self) -> int:
        """How many nodes are controllers."""
        return self.brokers if self.combined else self.controllers

    @property
    def grpc_count(self) -> int:
        """How many controllers have a port for brokers beside the one for controllers."""
        return 0 if self.runs.is_kafka or self.controllers == 1 else self.controllers

    @property
    def nodes_text(self) -> str:
        """How many nodes there are of each role, for people."""
        brokers = counted(self.brokers, "broker")
        if self.combined:
            return f"{brokers} (controllers as well)"
        return f"{counted(self.controllers, 'controller')}, {brokers}"

    @property
    def properties(self) -> dict[str, str]:
        """Kafka's settings for all nodes: those of `config` come before what settings give."""
        found: dict[str, str] = {}
        for name, one in SETTINGS.items():
            value = getattr(self, name)
            if one.properties is not None and value != DEFAULTS[name]:
                found |= one.properties(value)
        return found | dict(self.config)

    @property
    def advertised(self) -> list[tuple[str, int, int]]:
        """Host and port for clients elsewhere, and the port here, of each broker.

        Raises:
            EngineError: the text has no such form, or names another number of brokers.
        """
        found = []
        for text in filter(None, (one.strip() for one in self.advertise.split(","))):
            match = _ADVERTISED.fullmatch(text)
            if match is None or not all(0 < int(n) < 65536 for n in match.groups()[1:] if n):
                raise EngineError(f"expected --advertise HOST:PORT or HOST:PORT=PORT, got {text!r}")
            port = int(match[2])
            found.append((match[1], port, int(match[3] or port)))
        if len(found) == 1:
            ((host, port, here),) = found
            found = [(host, port + one, here + one) for one in range(self.brokers)]
        if found and len(found) != self.brokers:
            raise EngineError(
                f"--advertise names {len(found)} addresses for {counted(self.brokers, 'broker')}"
            )
        return found

    def beside(self, engine: Engine) -> Self:
        """Return the same on an engine that others are compared with.

        Options of the JVM are for the engines that have one.
        """
        options = self.jvm_options if engine.is_kafka else ""
        return replace(self, engine=engine, jvm_options=options)

    def check(self) -> None:
        """Check that the engine can have such nodes.

        Raises:
            EngineError: it cannot.
        """
        engine = self.runs
        if self.advertised and self.combined:
            raise EngineError("combined nodes advertise no second listener")
        if self.brokers >= CONTROLLER_ID and not self.combined:
            raise EngineError(
                f"a cluster has at most {CONTROLLER_ID - 1} brokers, not {self.brokers}: node "
                f"{CONTROLLER_ID} is the first controller"
            )
        if engine.is_kafka:
            if self.combined and self.controllers != 1:
                raise EngineError(
                    f"combined nodes are the controllers: {self.controllers} controllers have no "
                    "effect"
                )
            return
        if self.controllers % 2 == 0:
            raise EngineError(
                f"the engine {engine} has an odd number of controllers, not {self.controllers}: "
                "one more than that survives no further failure"
            )
        if self.combined:
            raise EngineError(
                f"a node of the engine {engine} has one role; kafka:RELEASE has combined nodes"
            )
        if self.jvm_options:
            raise EngineError(
                f"the engine {engine} has no JVM for {self.jvm_options!r}; kafka:RELEASE has"
            )


_ADVERTISED = re.compile(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+):(\d{1,5})(?:=(\d{1,5}))?")
SETTINGS: Mapping[str, Setting] = {
    each.name: each.metadata["setting"] for each in fields(ClusterSpec)
}
"""The settings by their names, in the order of helps."""
DEFAULTS: Mapping[str, Any] = {
    each.name: {} if each.default is MISSING else each.default for each in fields(ClusterSpec)
}
OF_TESTS: Mapping[str, str] = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "300",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}
"""Kafka's settings of clusters for tests: a dead broker is noticed soon, and groups do not wait."""
OF_MARKS: Mapping[str, Any] = {"disks": 2, "mechanism": "none"}
"""Defaults of marks that differ."""


def option_of(name: str) -> str:
    """Return the option of a setting."""
    return SETTINGS[name].option or f"--{name.replace('_', '-')}"


def given(options: object) -> dict[str, Any]:
    """Return the settings that a parsed command line gives, by their names; the engine as text."""
    found = {name: getattr(options, name, None) for name in SETTINGS}
    return {name: value for name, value in found.items() if value}


def first_given(options: object, *more: str) -> str:
    """Return the first option of a setting, or of others by name, that is given; empty if none."""
    named = [option_of(name) for name in given(options)]
    named += [f"--{name}" for name in more if getattr(options, name, None)]
    return named[0] if named else ""


def of_options(options: object, engine: Engine, **more: Any) -> ClusterSpec:
    """Return what a command line says of a cluster of an engine; `more` replaces it.

    Raises:
        EngineError: the engine has no such nodes.
    """
    found = ClusterSpec(**_plain(given(options)) | more | {"engine": engine})
    if getattr(options, "against", ()):
        found = found.beside(engine)
    found.check()
    return found


def over(spec: ClusterSpec, options: object) -> ClusterSpec:
    """Return the settings of a plan with those of a command line, which come first."""
    found = _plain(given(options))
    return replace(spec, **found | {"config": {**spec.config, **found.get("config", {})}})


def _plain(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that a command line gives, without the engine, which has to be chosen."""
    return {
        name: dict(value) if SETTINGS[name].form is Form.SETTINGS else value
        for name, value in found.items()
        if name != "engine"
    }


def arguments_of_mark() -> dict[str, Any]:
    """Return the arguments of a mark with their defaults."""
    found = {name: DEFAULTS[name] for name, one in SETTINGS.items() if one.in_mark}
    return {**found, **{name: OF_MARKS[name] for name in found if name in OF_MARKS}, "calls": False}


def of_variables(variables: Mapping[str, str]) -> list[str]:
    """Return the words of a command line that an environment says: `JBODLAB_BROKERS=5`.

    Args:
        variables: The environment; `JBODLAB_CONFIG` has several settings with blanks between.
    """
    words: list[str] = []
    for name, one in SETTINGS.items():
        text = variables.get(f"JBODLAB_{name.upper()}", "").strip()
        if not text or one.form is Form.ENGINE:
            # The engine is chosen by its variable everywhere.
            continue
        if one.form is Form.SETTINGS:
            words += [f"{option_of(name)}={each}" for each in shlex.split(text)]
        elif one.form is not Form.FLAG:
            words.append(f"{option_of(name)}={text}")
        elif text.lower() not in ("0", "false", "no"):
            words.append(option_of(name))
    return words


def words_of(settings: Mapping[str, Any]) -> list[str]:
    """Return settings by their names as words of a command line; what is empty is left out."""
    words: list[str] = []
    for name, value in settings.items():
        if value is None or value is False or value in ("", [], {}):
            continue
        match SETTINGS[name].form:
            case Form.SETTINGS:
                words += [f"{option_of(name)}={key}={text}" for key, text in dict(value).items()]
            case Form.FLAG:
                words.append(option_of(name))
            case _:
                words.append(f"{option_of(name)}={value}")
    return words


def of_mark(wanted: Mapping[str, Any], variables: Mapping[str, str]) -> ClusterSpec:
    """Return what a mark, or another caller of the fixtures, describes.

    Args:
        wanted: The settings by name, as plain values; `calls` says whether brokers are started so
            that single calls can be broken (`eio`, `slow`, `hang`).
        variables: The environment, which may name the engine.

    Raises:
        TypeError: there is no such setting.
        ValueError: a value is out of its range, or the engine is none, or has no such nodes.
    """
    known = arguments_of_mark()
    for name in wanted:
        if name not in known:
            raise TypeError(f"unknown setting {name!r}; expected one of {', '.join(known)}")
    found: dict[str, Any] = dict(OF_MARKS)
    if wanted.get("calls"):
        found["mechanism"] = "preload"
    for name, one in SETTINGS.items():
        if name in wanted and name != "engine":
            found[name] = _checked(name, one, wanted[name])
    try:
        spec = ClusterSpec(**found, engine=chosen(wanted.get("engine"), variables))
        spec.check()
    except EngineError as error:
        raise ValueError(str(error)) from error
    return spec


def _checked(name: str, one: Setting, value: Any) -> Any:
    match one.form:
        case Form.NUMBER:
            if not isinstance(value, int) or not 1 <= value <= one.most:
                raise ValueError(f"expected {name} from 1 to {one.most}, got {value!r}")
        case Form.WORD:
            if value and value not in one.words:
                raise ValueError(f"expected {name} {', '.join(one.words)}, got {value!r}")
            return value or ""
        case Form.SETTINGS:
            return {key: str(each) for key, each in sorted((value or {}).items())}
        case Form.FLAG:
            return bool(value)
    return value


def written(spec: ClusterSpec) -> dict[str, Any]:
    """Return what the state file has of a description: plain values, without what is not kept."""
    found = {name: getattr(spec, name) for name, one in SETTINGS.items() if one.is_kept}
    return {**found, "engine": str(spec.runs)}


def spec_of(state: ClusterState) -> ClusterSpec:
    """Return what a cluster that exists was made from, as far as its state file has it."""
    known = {name: state.spec[name] for name in SETTINGS if name in state.spec}
    engine = Engine.written_down(cast("str", known.pop("engine", str(OWN))))
    return ClusterSpec(**known, engine=engine)


def table() -> str:
    """Return the table of `docs/engines.md`: each setting as every door says it."""
    lines = ["| option | in a plan, below `cluster` | in the mark | |", "|---|---|---|---|"]
    marks = arguments_of_mark()
    for name, one in SETTINGS.items():
        value = "" if one.form is Form.FLAG else f" {one.metavar or option_of(name)[2:].upper()}"
        key, dot, inner = one.key.partition(".")
        in_plan = f"`{key}: {{{inner}: ...}}`" if dot else f"`{key}: ...`" if key else ""
        in_mark = f"`{name}=...`" if name in marks else ""
        option = f"`{option_of(name)}{value}` of {_commands(one.on)}"
        lines.append(f"| {option} | {in_plan} | {in_mark} | {one.help} |")
    return "\n".join(lines) + "\n"


def _commands(on: On) -> str:
    named = {On.UP: "`up`", On.DEMO: "`demo`", On.OTHERS: "`run`, `rehearse`"}
    return ", ".join(text for each, text in named.items() if each in on)

from __future__ import annotations

import pytest

from admin_tool import log_dirs, reassign_partitions, topics
from admin_tool.errors import UsageError
from admin_tool.options import Option, broker_ids, comma_list, parse, usage

OPTIONS = (
    Option(name="flag", help="A flag."),
    Option(name="one", value="text", help="One value."),
    Option(name="many", value="text", help="Many values.", repeatable=True),
)


def test_values_follow_or_are_joined_by_an_equals_sign() -> None:
    parsed = parse(["--one", "--odd", "--many=a=b", "--many", "c", "--flag", "word"], OPTIONS)

    assert parsed.text("one") == "--odd"
    assert parsed.texts("many") == ("a=b", "c")
    assert parsed.has("flag")
    assert parsed.words == ("word",)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--fla"], "fla is not a recognized option"),
        (["--one"], "Option one requires an argument"),
        (["--flag=x"], "Option flag takes no argument"),
        (
            ["--one", "a", "--one", "b"],
            "Found multiple arguments for option one, but you asked for only one",
        ),
    ],
)
def test_wrong_command_lines_are_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse(arguments, OPTIONS)
    assert str(refused.value) == message


def test_a_number_must_be_one() -> None:
    with pytest.raises(UsageError, match="Cannot parse argument 'x' of option one"):
        parse(["--one", "x"], OPTIONS).number("one")
    assert parse(["--one", "-1"], OPTIONS).number("one") == -1
    assert parse([], OPTIONS).number("one") is None


def test_lists_forgive_blanks_and_empty_parts() -> None:
    assert comma_list(" a, b,,c ") == ["a", "b", "c"]
    assert comma_list(None) == []
    assert broker_ids("1, 2") == [1, 2]
    with pytest.raises(UsageError, match="'x' is not a broker id"):
        broker_ids("1,x")


def test_usage_lists_every_option_in_order() -> None:
    heads = [
        line.split()[0]
        for line in usage(OPTIONS).splitlines()
        if line.startswith("--") and line[2] != "-"
    ]
    assert heads == ["--flag", "--many", "--one"]


BOOT = "--bootstrap-server=127.0.0.1:1"
ALL_ACTIONS = "--list, --describe, --create, --alter or --delete"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (BOOT, f"Command must include exactly one action: {ALL_ACTIONS}"),
        (f"{BOOT} --list --describe", f"Command must include exactly one action: {ALL_ACTIONS}"),
        ("--list", 'Missing required argument "[bootstrap-server]"'),
        (f"{BOOT} --create", 'Missing required argument "[topic]"'),
        (f"{BOOT} --delete", 'Missing required argument "[topic]"'),
        (f"{BOOT} --alter --topic a", 'Missing required argument "[partitions]"'),
        (
            f"{BOOT} --list --partitions 3",
            'Option "[partitions]" can\'t be used with option "[list]"',
        ),
        (
            f"{BOOT} --create --topic a --replica-assignment 1:2 --partitions 3",
            'Option "[replica-assignment]" can\'t be used with option "[partitions]"',
        ),
        (
            f"{BOOT} --describe --unavailable-partitions --topics-with-overrides",
            'Option "[unavailable-partitions]" can\'t be used with option '
            '"[topics-with-overrides]"',
        ),
        (f"{BOOT} --list x", "x is not a recognized option"),
    ],
)
def test_topics_refuses_what_does_not_go_together(
    line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert topics.main(line.split()) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines()[0] == message
    assert "--under-replicated-partitions" in printed.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            f"{BOOT} --list --execute",
            "Command must include exactly one action: "
            "--generate, --execute, --verify, --cancel, --list",
        ),
        ("--list", "Please specify either --bootstrap-server or --bootstrap-controller"),
        (
            f"{BOOT} --bootstrap-controller=127.0.0.1:2 --list",
            "Please don't specify both --bootstrap-server and --bootstrap-controller",
        ),
        (
            f"{BOOT} --list --throttle 5",
            'Option "[throttle]" can\'t be used with action "[list]"',
        ),
        (
            "--bootstrap-controller=127.0.0.1:2 --execute --reassignment-json-file x",
            'Option "[bootstrap-controller]" can\'t be used with action "[execute]"',
        ),
        (f"{BOOT} --execute", 'Missing required argument "[reassignment-json-file]"'),
        (
            f"{BOOT} --generate --topics-to-move-json-file x",
            'Missing required argument "[broker-list]"',
        ),
    ],
)
def test_reassignments_refuse_what_does_not_go_together(
    line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reassign_partitions.main(line.split()) == 1
    assert capsys.readouterr().err.splitlines()[0] == message


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (BOOT, 'Missing required argument "[describe]"'),
        ("--describe", 'Missing required argument "[bootstrap-server]"'),
        (f"{BOOT} revive --broker 1", 'Missing required argument "[dir]"'),
        (f"{BOOT} cordon --dir /a", 'Missing required argument "[broker]"'),
        (f"{BOOT} erase --dir /a", "erase is not a recognized command: "),
        (
            f"{BOOT} revive --broker 1 --dir /a --table",
            'Option "[table]" can\'t be used with option "[revive]"',
        ),
        (
            f"{BOOT} --describe --broker 1",
            'Option "[broker]" can\'t be used with option "[describe]"',
        ),
    ],
)
def test_log_dirs_refuses_what_does_not_go_together(
    line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert log_dirs.main(line.split()) == 1
    assert capsys.readouterr().err.splitlines()[0].startswith(message)


@pytest.mark.parametrize("main", [topics.main, log_dirs.main, reassign_partitions.main])
def test_help_is_no_success_and_the_version_is_one(
    main: object, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(main)
    assert main([]) == 1
    nothing = capsys.readouterr()
    assert main(["--help"]) == 1
    assert capsys.readouterr() == nothing
    assert nothing.out == ""
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("balance", "balance must include exactly one action: --plan, --execute, --status"),
        ("balance --plan --cancel", "balance must include exactly one action: "),
        ("balance --plan --wait", 'Missing required argument "[execute]"'),
        ("drain --broker 1", 'Missing required argument "[dir]"'),
        ("drain --broker 1 --dir /a --wait", 'Missing required argument "[execute]"'),
        (
            "drain --broker 1 --dir /a --plan",
            'Option "[plan]" can\'t be used with option "[drain]"',
        ),
    ],
)
def test_options_of_drain_and_balance_have_to_go_together(
    line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert log_dirs.main(["--bootstrap-server", "127.0.0.1:1", *line.split()]) == 1
    assert capsys.readouterr().err.startswith(message)


def test_a_value_may_be_left_out_where_the_option_says_so() -> None:
    options = (*OPTIONS, Option(name="maybe", value="text", help="Perhaps.", is_optional=True))
    assert parse(["--maybe", "--flag"], options).text("maybe") == ""
    assert parse(["--maybe"], options).has("maybe")
    assert parse(["--maybe", "a"], options).text("maybe") == "a"
    assert "--maybe [text]" in usage(options)

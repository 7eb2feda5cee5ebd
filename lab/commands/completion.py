"""`jbodlab completion`: what a shell needs to complete commands, options and words.

eval "$(jbodlab completion bash)"
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping

from fault_injection import kinds
from lab.interrupts import Interrupts
from lab.rehearsal import plans

_WORDS: Mapping[str, Callable[[], Iterable[str]]] = {
    "inject": lambda: kinds.KINDS,
    "rehearse": plans.shipped,
}
"""What commands take beside their options, where that is known."""

_BASH = """\
_jbodlab() {{
    local command=${{COMP_WORDS[1]}} word=${{COMP_WORDS[COMP_CWORD]}} known
    local before=${{COMP_WORDS[COMP_CWORD - 1]}}
    if [ "$COMP_CWORD" -eq 1 ]; then known="{commands}"; else case "$command $before" in
{cases}
    esac; fi
    COMPREPLY=($(compgen -W "$known" -- "$word"))
}}
complete -o default -F _jbodlab jbodlab
"""


def run(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Print it; returns the exit code."""
    if options.shell == "zsh":
        print("autoload -U +X bashcompinit && bashcompinit")
    print(script(options.parser), end="")
    return 0


def script(parser: argparse.ArgumentParser) -> str:
    """Return what bash runs, made from the parser itself."""
    (commands,) = (
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    )
    cases = []
    for name, command in commands.choices.items():
        words = list(_WORDS.get(name, tuple)())
        for action in command._actions:
            options = [word for word in action.option_strings if word.startswith("--")]
            words += options
            if action.choices and options:
                before = "|".join(f'"{name} {option}"' for option in options)
                cases.append(f'        {before}) known="{" ".join(map(str, action.choices))}";;')
            elif action.choices:
                words += map(str, action.choices)
        cases.append(f'        "{name} "*) known="{" ".join(words)}";;')
    return _BASH.format(commands=" ".join(commands.choices), cases="\n".join(cases))

"""`jbodlab completion`: what a shell needs to complete commands, options and words.

eval "$(jbodlab completion bash)"
"""

from __future__ import annotations

import argparse

from fault_injection import kinds
from lab.interrupts import Interrupts

_BASH = """\
_jbodlab() {{
    local command=${{COMP_WORDS[1]}} word=${{COMP_WORDS[COMP_CWORD]}} known
    if [ "$COMP_CWORD" -eq 1 ]; then known="{commands}"; else case "$command" in
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
        words = [word for action in command._actions for word in action.option_strings]
        words = [word for word in words if word.startswith("--")]
        if name == "inject":
            words += kinds.KINDS
        cases.append(f'        {name}) known="{" ".join(words)}";;')
    return _BASH.format(commands=" ".join(commands.choices), cases="\n".join(cases))

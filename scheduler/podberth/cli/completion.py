"""`berth completion`: what a shell runs to complete berth's command lines, and what may come next on one."""

import sys
from collections.abc import Iterator, Sequence
from enum import Enum, StrEnum
from typing import Annotated, Any

import typer

FILES, NOTHING = ":0", ":4"
_FILES = frozenset(
    (
        "filename",
        "file",
        "files",
        "cluster",
        "config",
        "kubeconfig",
        "policies",
        "trace",
        "beside",
        "cases",
        "out",
        "old",
        "record",
        "recorded",
    )
)
"""Parameters that name files."""


def lines(words: Sequence[str]) -> list[str]:
    """Return what is printed for the words after the program's name; the last of them is not complete yet."""
    from podberth.cli.commands import COMMANDS, app

    root: Any = typer.main.get_command(app)
    *before, incomplete = words or [""]
    command, rest = _walk(root, before, COMMANDS)
    option = _waiting(command, rest)
    if option is not None:
        found = list(_values(option))
        files = option.name in _FILES and not found
    elif incomplete.startswith("-"):
        found, files = list(_options(command)), False
    elif getattr(command, "commands", None):
        found, files = [(name, _line(each.help)) for name, each in command.commands.items()], False
    else:
        arguments = [each for each in command.params if each.param_type_name == "argument"]
        found, files = [], any(each.name in _FILES for each in arguments)
    kept = [(value, text) for value, text in found if value.startswith(incomplete)]
    return [*(f"{value}\t{text}" if text else value for value, text in kept), FILES if files else NOTHING]


def _walk(root: Any, words: Sequence[str], known: Any) -> tuple[Any, list[str]]:
    """Return the command that the words lead to, and the words that are its own."""
    from podberth.cli.commands import imported

    command: Any = root
    rest: list[str] = []
    for word in words:
        below = getattr(command, "commands", None) or {}
        if not word.startswith("-") and not rest and word in below:
            command = below[word]
            if command is not None and root.commands.get(word) is command and word in known:
                command = typer.main.get_command(imported(word))
        else:
            rest.append(word)
    return command, rest


def _waiting(command: Any, words: Sequence[str]) -> Any:
    """Return the option whose value comes next; None where none does."""
    last = [word for word in words[-2:] if word != "="]  # bash takes --output=json for three words
    for each in command.params if last and last[-1].startswith("-") else ():
        if last[-1] in each.opts and not getattr(each, "is_flag", False):
            return each
    return None


def _options(command: Any) -> Iterator[tuple[str, str]]:
    for each in command.params:
        if each.param_type_name == "option" and not each.hidden:
            for name in (*each.opts, *each.secondary_opts):
                if name.startswith("--"):
                    yield name, _line(each.help)
    yield "--help", "Show what a command does, and its options."


def _values(option: Any) -> Iterator[tuple[str, str]]:
    kind = option.type_descriptor.annotation
    if isinstance(kind, type) and issubclass(kind, Enum):
        yield from ((str(each.value), "") for each in kind)


def _line(text: str | None) -> str:
    """Return the first sentence."""
    first = " ".join((text or "").split("\n\n")[0].split())
    return first.partition(". ")[0].rstrip(".")


app = typer.Typer(add_completion=False)

_BASH = """\
# Completion of berth for bash. Load it with: source <(berth completion bash)
_berth_complete() {
    local lines line
    COMPREPLY=()
    mapfile -t lines < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    (( ${#lines[@]} )) || return
    for line in "${lines[@]:0:${#lines[@]}-1}"; do
        COMPREPLY+=("${line%%$'\\t'*}")
    done
    if (( ! ${#COMPREPLY[@]} )) && [[ ${lines[-1]} == :0 ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
    fi
}
complete -o filenames -F _berth_complete berth
"""
_ZSH = """\
#compdef berth
# Completion of berth for zsh. Load it with: source <(berth completion zsh)
_berth() {
    local -a lines values
    local line last
    lines=("${(@f)$(${words[1]} __complete "${(@)words[2,$CURRENT]}" 2>/dev/null)}")
    last="${lines[-1]}"
    lines[-1]=()
    for line in "${(@)lines}"; do
        if [[ "$line" == *$'\\t'* ]]; then
            values+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}")
        else
            values+=("${line//:/\\\\:}")
        fi
    done
    if (( ${#values} )); then
        _describe berth values
    elif [[ "$last" == :0 ]]; then
        _files
    fi
}
if [[ "${funcstack[1]}" == _berth ]]; then
    _berth "$@"
else
    compdef _berth berth
fi
"""
_FISH = """\
# Completion of berth for fish. Load it with: berth completion fish | source
function __berth_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l lines ($words[1] __complete $words[2..-1] 2>/dev/null)
    test (count $lines) -gt 0; or return
    set -l last $lines[-1]
    set -e lines[-1]
    if test (count $lines) -gt 0
        printf '%s\\n' $lines
    else if test "$last" = :0
        __fish_complete_path (commandline -ct)
    end
end
complete -c berth -f -a '(__berth_complete)'
"""


class Shell(StrEnum):
    """Shells that can be told."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


SCRIPTS = {Shell.BASH: _BASH, Shell.ZSH: _ZSH, Shell.FISH: _FISH}


@app.command()
def completion(shell: Annotated[Shell, typer.Argument(help="The shell.")]) -> None:
    """Print what makes a shell complete berth's commands, options and their values: source <(berth completion bash).

    `kubectl berth` is completed by kubectl itself, which runs kubectl_complete-berth.
    """
    sys.stdout.write(SCRIPTS[shell])

"""`berth completion`: what a shell runs to complete berth's command lines."""

import sys
from enum import StrEnum
from typing import Annotated

import typer

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

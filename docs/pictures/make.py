"""Draw docs/pictures/*.svg from the real output of the commands: `python docs/pictures/make.py`."""

import io
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PICTURES = {"explain": ["explain", "report", "--cluster", "examples/explain/cluster.yaml"]}
WIDTH = 92


def main() -> None:
    """Run each command as on a terminal and keep what it shows."""
    for name, arguments in PICTURES.items():
        done = subprocess.run(
            [str(Path(sys.executable).parent / "berth"), *arguments],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={"FORCE_COLOR": "1", "COLUMNS": str(WIDTH), "PATH": "/usr/bin:/bin", "TERM": "xterm-256color"},
            check=False,
        )
        console = Console(record=True, width=WIDTH, file=io.StringIO())
        console.print(Text.from_ansi(f"$ berth {' '.join(arguments)}\n\n{done.stdout}"))
        svg = console.export_svg(title="berth explain")
        # No fonts from elsewhere: a reader's own monospace will do.
        svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.S)
        (HERE / f"{name}.svg").write_text(svg)


if __name__ == "__main__":
    main()

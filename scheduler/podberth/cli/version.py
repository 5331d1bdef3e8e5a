"""`berth version`."""

import typer

from podberth import __version__

app = typer.Typer(add_completion=False)


@app.command()
def version() -> None:
    """Print the version."""
    print(f"berth {__version__}")

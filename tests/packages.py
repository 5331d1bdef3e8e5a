"""Packages with plugins, installed into a directory of their own: put it on PYTHONPATH, and Berth finds them."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "plugin"


def install_example(target: Path, *others: Path) -> Path:
    """Install the example package and others by pip, as people do; return the directory."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
    folders = map(str, (EXAMPLE, *others))
    subprocess.run([*pip, "--no-build-isolation", "--target", str(target), *folders], check=True)
    return target


def install_module(target: Path, module: str, code: str, *names: str) -> None:
    """One module and its entry points, as an installer leaves them behind."""
    (target / f"{module}.py").write_text(code)
    info = target / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    lines = "".join(f"{name} = {module}:{name}\n" for name in names)
    (info / "entry_points.txt").write_text(f"[podberth.plugins]\n{lines}")

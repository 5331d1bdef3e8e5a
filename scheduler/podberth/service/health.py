"""Answers of /healthz, /livez and /readyz, in the form of Kubernetes' components."""

from __future__ import annotations

from collections.abc import Callable, Mapping

Check = Callable[[], str | None]
"""Why not, or None."""
Checks = Mapping[str, Check]


def answer(path: str, checks: Checks, *, verbose: bool, notes: Mapping[str, str] | None = None) -> tuple[int, str]:
    """(status, text): `ok`, or a line for each check when one fails or `verbose` asks for it.

    `notes` are lines of what does not work as it should and is no reason to fail.
    """
    name = path.strip("/")
    found = {"ping": None} | {check: ask() for check, ask in checks.items()}
    failed = [check for check, why in found.items() if why is not None]
    if not failed and not verbose:
        return 200, "ok"
    lines = [f"[+]{check} ok" if why is None else f"[-]{check} failed: {why}" for check, why in found.items()]
    lines += [f"[!]{what}: {said}" for what, said in (notes or {}).items()]
    lines.append(f"{name} check {'failed' if failed else 'passed'}")
    return 503 if failed else 200, "\n".join(lines) + "\n"

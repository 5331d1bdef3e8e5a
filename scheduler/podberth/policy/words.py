"""Short texts about rules, policies and keys: how each is cut, so that no text grows with what a tenant writes."""

WARNING_LENGTH = 120


def cut(text: str, length: int) -> str:
    """Return a text, shortened if it is too long."""
    return text if len(text) <= length else f"{text[: length - 3]}..."


def warning(text: str) -> str:
    """Return a text as a warning header can carry it."""
    short = cut(text, WARNING_LENGTH)  # first, as the text may hold a whole annotation
    return short if short.isprintable() else "".join(c if c.isprintable() else "?" for c in short)

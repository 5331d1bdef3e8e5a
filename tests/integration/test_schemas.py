"""The types that files are judged by are those of the supported versions."""

import pytest

from tests.controlplane import schemas

pytestmark = pytest.mark.real


def test_the_file_is_current() -> None:
    """`make schemas` would change nothing."""
    assert schemas.FILE.read_text() == schemas.made()

"""Settings that the policies' services share."""

from __future__ import annotations

import pytest

from podberth.policy.settings import ServiceSettings, SettingsError, seconds


@pytest.mark.parametrize("value", [0.0, 1.5, 30 * 24 * 3600 - 1.0])
def test_times(value: float) -> None:
    """Up to 30 days."""
    seconds("--drain", value)


@pytest.mark.parametrize("value", [-0.1, 30 * 24 * 3600.0, float("nan")])
def test_what_is_no_time(value: float) -> None:
    """The option is named."""
    with pytest.raises(SettingsError, match=r"^--drain .*: want seconds, 0 or more"):
        seconds("--drain", value)


@pytest.mark.parametrize(("port", "good"), [(0, True), (65535, True), (-1, False), (65536, False)])
def test_ports(port: int, good: bool) -> None:
    """0 leaves the choice to the system."""
    if good:
        assert ServiceSettings("berth", port=port).port == port
        return
    with pytest.raises(SettingsError, match=f"^--port {port}: want 0 to 65535$"):
        ServiceSettings("berth", port=port)

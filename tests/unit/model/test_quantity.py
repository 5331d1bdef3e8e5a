"""Quantities as apimachinery's `resource.ParseQuantity`, `Value` and `MilliValue` read them."""

import pytest

from podberth.model.quantity import BOUND, QuantityError, is_absurd, milli_units, parse_nano, show, units

# text, Value(), MilliValue(); from apimachinery v0.37.0
READ = [
    ("0", 0, 0),
    ("1", 1, 1000),
    ("+1", 1, 1000),
    ("-1", -1, -1000),
    ("00012", 12, 12000),
    ("5.", 5, 5000),
    (".5", 1, 500),
    ("-.5", -1, -500),
    ("0.0015", 1, 2),
    ("100m", 1, 100),
    ("1500m", 2, 1500),
    ("1001u", 1, 2),
    ("1n", 1, 1),
    ("100n", 1, 1),
    ("0.1n", 1, 1),
    ("1.0000000001", 2, 1001),
    ("1k", 1000, 1000000),
    ("1M", 10**6, 10**9),
    ("1G", 10**9, 10**12),
    ("1T", 10**12, 10**15),
    ("1Ki", 1024, 1024000),
    ("1Mi", 1 << 20, 1000 << 20),
    ("1Gi", 1 << 30, 1000 << 30),
    ("1Ti", 1 << 40, 1000 << 40),
    ("0.5Gi", 1 << 29, 1000 << 29),
    ("0.0001Ki", 1, 103),
    ("1e3", 1000, 1000000),
    ("1E3", 1000, 1000000),
    ("1e+3", 1000, 1000000),
    ("1E-3", 1, 1),
    ("1e-10", 1, 1),
    ("1.e3", 1000, 1000000),
    ("12E2", 1200, 1200000),
    ("1E0", 1, 1000),
    ("m", 0, 0),
    ("+", 0, 0),
    (".", 0, 0),
    ("Ki", 0, 0),
]

REFUSED = [
    "", " 1", "1 ", "1\n", "1_000", "0x10", "1Ki5", "1K", "1KI", "1ki", "1kib", "1mE", "1e3Ki", "1e3k", "1e", "1e+",
    "1e1.5", "1p", "--1", "+-1", "1..2", "1,5", "NaN", "inf", "١", "1μ", "²", "abc", "1 Gi", "1e99999999999",
]  # fmt: skip


@pytest.mark.parametrize(("text", "value", "milli"), READ)
def test_reads(text: str, value: int, milli: int) -> None:
    """Every suffix and exponent, rounded up to whole units and to thousandths."""
    nano = parse_nano(text)
    assert (units(nano), milli_units(nano)) == (value, milli)


@pytest.mark.parametrize("text", REFUSED)
def test_refuses(text: str) -> None:
    """What Go's parser refuses, and exponents that only serve to burn memory, are named in the error."""
    with pytest.raises(QuantityError, match="is not a quantity"):
        parse_nano(text)


@pytest.mark.parametrize("text", ["1P", "1Pi", "1E", "1Ei", "16Ei", "9223372036854775808", "1e30", "9" * 200])
def test_bounds_what_no_machine_has(text: str) -> None:
    """Sums over a node, times 100, stay inside int64."""
    assert milli_units(parse_nano(text)) == BOUND
    assert units(parse_nano(text)) <= BOUND
    assert BOUND * 100 < 2**62


@pytest.mark.parametrize(
    ("text", "absurd"), [("-1", True), ("0", False), ("32Pi", False), ("33Pi", True), ("1E", True)]
)
def test_names_the_absurd(text: str, absurd: bool) -> None:
    """Negative amounts and those beyond the bound are marked."""
    assert is_absurd(parse_nano(text)) is absurd


@pytest.mark.parametrize(("given", "nano"), [(2, 2 * 10**9), (0.5, 5 * 10**8), (1e-9, 1), (1.5e21, 15 * 10**29)])
def test_reads_json_numbers(given: float, nano: int) -> None:
    """YAML dumps may hold bare numbers."""
    assert parse_nano(given) == nano


def test_one_equal_to_a_number_is_not_its_text() -> None:
    """The cache does not mix True, 1 and "1" up in a way that shows."""
    assert parse_nano("1") == parse_nano(1) == parse_nano(1.0)


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 2000, "2"),
        ("cpu", 500, "500m"),
        ("memory", 1 << 30, "1Gi"),
        ("memory", 1536 << 20, "1.5Gi"),
        ("memory", 100, "100"),
        ("hugepages-2Mi", 4 << 20, "4Mi"),
        ("example.com/gpu", 2048, "2048"),
    ],
)
def test_shows(resource: str, amount: int, text: str) -> None:
    """Amounts read as people write them."""
    assert show(resource, amount) == text

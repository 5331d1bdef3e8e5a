"""Compiling and evaluating selectors: what the caller sees. The corpus in tests/conformance judges the language."""

from __future__ import annotations

import pytest

from podberth.cel import program as programs
from podberth.cel.errors import EffortError, EvaluationError
from podberth.cel.library.quantities import Quantity, Version

GPU = programs.DeviceView(
    "gpu.example.com",
    {"model": "a100", "index": 3, "healthy": True, "version": Version.parse("1.9.0"), "other.com/x": "y"},
    {"memory": Quantity.parse("40Gi"), "other.com/cores": Quantity.parse("100m")},
)
EMPTY = programs.DeviceView("gpu.example.com", {}, {}, None)
EXPENSIVE = {
    "loops in loops": "lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0))",
    "errors in a loop": "lists.range(900000).exists(x, 1/0 == 1)",
    "sums of huge quantities": 'cel.bind(q, quantity("1e128"), '
    "lists.range(1000).all(x, q.sub(q).add(q).isGreaterThan(q) == false))",
    "lists that hold lists": "cel.bind(r, lists.range(1000), cel.bind(m, [r, r, r, r, r, r, r, r], "
    "lists.range(1000).all(x, m == m)))",
    "lists that double": "cel.bind(a, [1], "
    + "".join(f"cel.bind(a{n}, [a{n - 1}, a{n - 1}, a{n - 1}], " for n in range(1, 30)).replace("a0", "a")
    + "a29 == a29"
    + ")" * 30,
    "concatenations": "cel.bind(a, lists.range(9000), lists.range(90000).all(x, (a + a).size() > 0))",
    "replacements": f"cel.bind(a, '{'a' * 3000}', lists.range(9000).all(x, a.replace('', '{'b' * 3000}') != ''))",
    "searches": "cel.bind(a, lists.range(9000).map(x, 'a'), lists.range(90000).all(x, a.indexOf('b') < 0))",
    "a pattern with many ways": f"'{'a' * 4000}'.matches('([^x]{{10}}){{100}}y|(a?){{90}}a{{90}}b')",
    "a pattern that repeats": f"'{'a' * 9000}'.matches('(((a{{1,10}}){{1,10}}){{1,10}})*a{{900}}a{{900}}b')",
    "a pattern of many groups": f"'{'a' * 4000}'.matches('{'(?P<n>a*)' * 500}c?')",
    "a search from each place": "cel.bind(a, lists.range(90).map(x, '"
    + "a" * 90
    + "').join(), a.findAll('.*b|a') == [])",
    "a pattern in a loop": "lists.range(9000).all(x, string(x).matches('^[0-9]{' + string(x % 900) + '}$') || true)",
    "classes in a loop": r"lists.range(9000).all(x, ''.matches(r'\pL\pL\pL' + string(x)) || true)",
}


def matches(expression: str, device: programs.DeviceView = GPU) -> bool:
    return programs.compile(expression).matches(device)


def failure(expression: str, device: programs.DeviceView = GPU) -> EvaluationError:
    with pytest.raises(EvaluationError) as caught:
        matches(expression, device)
    return caught.value


def test_names_without_a_domain_belong_to_the_driver() -> None:
    assert matches('device.attributes["gpu.example.com"].model == "a100" && device.attributes["other.com"].x == "y"')
    assert matches('device.capacity["other.com"].cores == quantity("100m")')


def test_an_unknown_domain_is_an_empty_map_and_is_not_there() -> None:
    assert str(failure('device.attributes["nope"].model == "a100"')) == "no such key: model"
    assert matches('device.attributes["nope"].size() == 0 && !("nope" in device.attributes)')
    assert not matches('has(device.attributes["nope"].model)')


def test_a_device_that_says_nothing_is_not_shared() -> None:
    assert not matches("device.allowMultipleAllocations", EMPTY)
    assert matches("device.allowMultipleAllocations", programs.DeviceView("x", {}, {}, True))


def test_a_mistake_is_the_programs_error_and_never_raised_by_compile() -> None:
    error = programs.compile("device.drvier == 1").error
    assert str(error) == (
        "compilation failed: ERROR: <input>:1:7: undefined field 'drvier'\n | device.drvier == 1\n | ......^"
    )
    with pytest.raises(programs.CompileError, match="undefined field") as one:
        matches("device.drvier == 1")
    with pytest.raises(programs.CompileError, match="undefined field") as other:
        matches("device.drvier == 1")
    assert one.value is not other.value, "it would keep the frames of each time that it was raised"


@pytest.mark.parametrize(
    "text", ["", "(", "'", '"""', "\\", "\x00", "é", "🙂 == 1", "/*", "a" * 5000, "!" * 9999, "{" * 9999]
)
def test_odd_text_is_an_error_not_an_exception(text: str) -> None:
    assert programs.compile(text).error is not None


def without_the_line(said: str) -> str:
    """An error without the line of the expression that it shows, and the mark below."""
    return "\n".join(line for line in said.splitlines() if not line.startswith(" | "))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("true &&\n\tnope", " |  nope\n | .^"),
        ("'é' == nope", " | 'é' == nope\n | .．.....^"),
        ("é", " | é\n | ＾"),
    ],
)
def test_the_line_and_the_place_are_shown(text: str, shown: str) -> None:
    """A wide character has a wide mark, as the API server's errors do."""
    assert str(programs.compile(text).error).partition("\n")[2] == shown


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("device.driver ==\n  'a' 'b'", "2:7: syntax error: expected '<EOF>', found ''b''"),
        ("[1, 2", "1:6: syntax error: expected ']', found '<EOF>'"),
        ("1 + ", "1:5: syntax error: expected an operand, found '<EOF>'"),
        ("device.1", "1:7: syntax error: expected '<EOF>', found '.1'"),
        ("1 # 2", '1:3: no token begins with "#"'),
        ("for == 1", "1:1: reserved identifier: for"),
        ("99999999999999999999 > 0", "1:1: invalid int literal"),
        ("[1].all(1, true)", "1:9: argument must be a simple name"),
    ],
)
def test_a_text_that_is_no_expression_is_refused_at_its_place(text: str, said: str) -> None:
    assert without_the_line(str(programs.compile(text).error)) == f"compilation failed: ERROR: <input>:{said}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("device.drvier == 'a'", "1:7: undefined field 'drvier'"),
        ("device.?drvier.hasValue()", "1:7: undefined field 'drvier'"),
        ("[1].all(x, y > 0) && z", "1:12: undeclared reference to 'y' (in container '')\n"
         "ERROR: <input>:1:22: undeclared reference to 'z' (in container '')"),
        ("lists.rnage(3).size() == 3", "1:1: undeclared reference to 'lists' (in container '')\n"
         "ERROR: <input>:1:12: undeclared reference to 'rnage' (in container '')"),
        ("isSemver('1', true, 2)", "1:9: found no matching overload for 'isSemver' with 3 arguments"),
    ],
)  # fmt: skip
def test_a_name_that_is_not_there_is_refused(text: str, said: str) -> None:
    assert without_the_line(str(programs.compile(text).error)) == f"compilation failed: ERROR: <input>:{said}"


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("[1].all(device, device == 1)", True),
        ("[{'a': 1}].all(device, device.a == 1)", True),
        ("[{'a': 1}].all(device, .device.driver == 'gpu.example.com')", True),
        ("type(1) == int && [2].all(int, int == 2)", True),
        ("type(ip('::1')) == net.IP", True),
        ("cel.bind(net, {'IP': 1}, net.IP == 1)", True),
    ],
)
def test_a_variable_comes_before_a_name_of_the_environment(text: str, holds: bool) -> None:
    assert matches(text) == holds


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("quantity('1') > quantity('2')", "no such overload: _>_"),
        ("device.driver.startsWith(1)", "no such overload"),
        ("quantity('1').isGreaterThan('2')", "no such overload: isGreaterThan(kubernetes.Quantity, string)"),
        ("device.driver", "CEL result of type string could not be converted to bool"),
    ],
)
def test_types_that_do_not_fit_are_found_when_it_runs(text: str, said: str) -> None:
    """The API server refuses such an expression before anybody has to evaluate it."""
    assert str(failure(text)) == said


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("timestamp('2026-01-01T00:00:00Z').getFullYear() == 2026", "durations and timestamps"),
        ("url('https://a.b').getHost() == 'a.b'", "URLs"),
        ("'%d'.format([1]) == '1'", "templates and named formats"),
        ("format.uuid().validate('a') == optional.none()", "templates and named formats"),
    ],
)
def test_a_function_that_is_left_out_is_named(text: str, what: str) -> None:
    """The API server took the expression, so that its author has to learn why it has no effect here."""
    assert f"{what} of Kubernetes' CEL are not known here" in str(programs.compile(text).error)


NESTED = [("(", ")", True), ("-(", ")", None), ("dyn(", ")", True), ("[", "]", False), ("{1:", "}", False)]
"""Opened and closed, and whether a 1 in it is equal to 1: where it is negated, that depends on how often."""


@pytest.mark.parametrize(("opening", "closing", "is_one"), NESTED)
@pytest.mark.parametrize("depth", [10, 99, 101, 2000])
def test_nesting_ends_in_an_answer(opening: str, closing: str, is_one: bool | None, depth: int) -> None:
    """However deep: it is compiled, or refused for its depth, never an exception of Python's."""
    program = programs.compile(f"{opening * depth}1{closing * depth} == 1")
    if depth > 100:
        assert "recursion limit exceeded" in str(program.error)
    else:
        assert program.matches(GPU) == (depth % 2 == 0 if is_one is None else is_one)


def test_an_error_is_made_up_for_by_the_other_side() -> None:
    assert matches('device.attributes["x"].y == 1 || true')
    assert not matches('false && device.attributes["x"].y == 1')
    assert str(failure('true && device.attributes["x"].y == 1')) == "no such key: y"


def test_a_call_ends_at_the_first_error() -> None:
    """What comes after it is not evaluated."""
    late = f"{EXPENSIVE['loops in loops']} ? 1 : 2"
    assert failure(f"[1][5] + ({late}) == 1").steps < 10


@pytest.mark.parametrize("name", EXPENSIVE)
def test_the_most_expensive_expressions_are_stopped(name: str) -> None:
    """Each is legal and within the 10 KiB. What it may do is bounded, and said in steps. Nothing makes up for it."""
    assert len(EXPENSIVE[name]) <= 10 << 10
    for text in (EXPENSIVE[name], f"({EXPENSIVE[name]}) || true"):
        with pytest.raises(EffortError) as caught:
            programs.compile(text).evaluate(GPU, 5_000)
        # The operation that went over the limit has taken some, too.
        assert 5_000 < caught.value.steps < 30_000


TEXT = f"lists.range(100).map(x, '{'a' * 900}').join()"


@pytest.mark.parametrize(
    "text",
    [
        f"cel.bind(a, {TEXT}, lists.range(5000).all(x, a.contains('b') == false))",
        f"cel.bind(a, {TEXT}, lists.range(5000).all(x, a == a + ''))",
        f"cel.bind(a, {TEXT}, lists.range(5000).all(x, a.lowerAscii().upperAscii().trim() != ''))",
        f"cel.bind(a, {TEXT}, lists.range(5000).all(x, bytes(a).size() > 0))",
        "cel.bind(a, lists.range(1000), lists.range(5000).all(x, a.indexOf(-1) < 0 && a.max() > 0))",
        "cel.bind(a, lists.range(1000), lists.range(5000).all(x, a.sort() == a))",
        "cel.bind(a, lists.range(1000), sets.equivalent(a, a))",
        "lists.range(1000).distinct().size() == 1000",
    ],
)
def test_what_is_long_takes_steps_each_time(text: str) -> None:
    with pytest.raises(EffortError):
        programs.compile(text).evaluate(GPU, 5_000)


def test_ordinary_selectors_take_few_steps() -> None:
    """Also one that goes over all attributes that a device may have."""
    many = programs.DeviceView("gpu.example.com", {f"a{i}": "x" for i in range(32)}, {})
    text = 'device.attributes["gpu.example.com"].all(k, device.attributes["gpu.example.com"][k] == "x")'
    assert programs.compile(text).evaluate(many).steps < 300
    assert programs.compile('device.driver == "gpu.example.com"').evaluate(GPU).steps < 5


def test_a_pattern_takes_time_in_proportion_to_the_text() -> None:
    """The classic of exponential time: ten times the text, ten times the steps."""
    steps = [
        programs.compile(f"'{'a' * size}!'.matches('^(a+)+$') == false").evaluate(GPU).steps for size in (100, 1000)
    ]
    assert steps[1] < 12 * steps[0]


def test_a_chain_of_macros_takes_steps_in_proportion_to_its_length() -> None:
    """In cel-go each doubles what is before it."""
    steps = [
        programs.compile(f"optional.of(1){'.optMap(a, a + 1)' * length}.value() == {length + 1}").evaluate(GPU)
        for length in (6, 60)
    ]
    assert all(one.matches for one in steps) and steps[1].steps < 12 * steps[0].steps


def test_patterns_that_are_large_when_compiled_are_refused() -> None:
    many = " && ".join(f"'a'.matches('a{{{900 + number}}}b{{900}}')" for number in range(100))
    assert "expression too large" in str(programs.compile(many).error)


@pytest.mark.parametrize(
    ("written", "shown"),
    [("1Ki", "1024"), ("-1500m", "-1.5"), ("0", "0"), ("100", "100"), ("1e30", "1" + "0" * 30)],
)
def test_a_quantity_in_a_message_is_a_number(written: str, shown: str) -> None:
    assert str(failure(f'[dyn(""), dyn(quantity("{written}"))].join() == ""')) == f"join: invalid input: {shown}"


@pytest.mark.parametrize("text", ["1e129", "1e-129", "1e4294967297", "1" * 129, "0" * 129])
def test_a_quantity_that_is_long_is_none(text: str) -> None:
    """Reading one, and adding two, takes no time to speak of."""
    assert not matches(f'isQuantity("{text}")')
    assert matches(f'isQuantity("1e128") && isQuantity("{"1" * 128}")')


def test_equal_expressions_are_compiled_once() -> None:
    assert programs.compile("1 == 1 && true") is programs.compile("1 == 1 && " + "true")


def test_what_is_remembered_is_bounded() -> None:
    """By its weight, in which a pattern's instructions count."""
    kept = programs.Programs(5000)
    first, heavy = kept.get("1 == 1", "a")[0], kept.get("'a'.matches('a{999}b{999}')", "a")[0]
    assert heavy.weight > 1998 > first.weight
    for number in range(40):
        kept.get(f"'a'.matches('b{{{number + 900}}}')", "a")
    assert kept.get("1 == 1", "a")[0] is not first


def test_what_one_owner_asks_for_displaces_nothing_of_others() -> None:
    kept = programs.Programs(5000)
    first = kept.get("1 == 1", "a")[0]
    for number in range(40):
        kept.get(f"'a'.matches('b{{{number + 900}}}')", "b")
    assert kept.get("1 == 1", "a")[0] is first


def test_compiling_is_priced_by_length_and_patterns() -> None:
    short, long = programs.compile("true"), programs.compile(" && ".join(["true"] * 500))
    assert long.steps > 50 * short.steps
    assert programs.compile("'a'.matches('a{900}')").steps > 300 + programs.compile("'a'.matches('a')").steps


def test_a_result_of_unknown_type_must_be_a_bool() -> None:
    assert matches('device.attributes["gpu.example.com"].healthy')
    text = str(failure('device.attributes["gpu.example.com"].version'))
    assert text == "CEL result of type kubernetes.Semver could not be converted to bool"


def test_one_evaluation_leaves_nothing_to_the_next() -> None:
    program = programs.compile("[1, 2, 3].map(x, x * 2).filter(y, y > 2) == [4, 6]")
    assert [program.evaluate(GPU) for _ in range(3)] == [program.evaluate(EMPTY)] * 3


def test_an_evaluation_ends_at_the_callers_limit() -> None:
    """Kubernetes would go on."""
    program = programs.compile("lists.range(200).all(x, lists.range(200).all(y, x + y >= 0)) || true")
    assert program.matches(GPU)
    with pytest.raises(EffortError) as caught:
        program.evaluate(GPU, 5_000)
    assert 5_000 < caught.value.steps < 10_000
    assert programs.compile('device.driver == "gpu.example.com"').evaluate(GPU, 5_000).matches


@pytest.mark.parametrize("end", ["true", "nonsense", "1 +"])
def test_compiling_is_counted_once(end: str) -> None:
    """For whoever asks first, also if it ends in an error."""
    text = "1 == 1 && " * 500 + end
    kept = programs.Programs()
    found, steps = kept.get(text, "a")
    assert steps == found.steps >= len(text)
    assert kept.get(text, "b") == (found, 0)


LONG = {
    "a list": f"device.driver in [{', '.join(f'string({i})' for i in range(700))}]",
    "a map": f'{{{", ".join(f"{i}: string({i})" for i in range(500))}}}[7] == "7"',
    "sums": " || ".join(f"({'1 + ' * 200}{i}) == {i}" for i in range(6)),
    "conditions": " || ".join("(" + "true ? false : (" * 40 + "device.driver == 'x'" + ")" * 41 for _ in range(6)),
    "a loop": f'[{", ".join(f"string({i})" for i in range(700))}].exists(x, x == "a")',
    "its body": f"[1, 2].all(x, {' && '.join(f'x != {i}' for i in range(700))})",
    "a loop in its body": f"[1].exists(x, [2].all(y, {' || '.join(f'x + y != {i}' for i in range(500))}))",
    "selected from a loop": f"[1].map(x, {' + '.join(['x'] * 249)}).size() + {' + '.join(['1'] * 240)} > 0"
    + f" || [1].all(x, {' && '.join(f'x != {i}' for i in range(500))})",
}


@pytest.mark.parametrize("name", LONG)
def test_a_long_expression_is_compiled(name: str) -> None:
    """Whatever its shape, Python's stack suffices for what is as long as Kubernetes allows."""
    assert len(LONG[name]) <= 10 << 10
    assert programs.compile(LONG[name]).error is None

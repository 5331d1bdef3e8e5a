"""Go templates with an index that is not known yet."""

import pytest

from podberth.testing.workloads.go_template import INDEX, GoTemplateError, render

VALUES = {"Index": INDEX, "Count": 12, "size": 3, "class": "example.com/gpu", "list": ["a", "b"]}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("name-{{.Index}}", "name-$(i)", id="index"),
        pytest.param("{{ DivideInt 30000 .Count }}Mi", "2500Mi", id="numbers"),
        pytest.param("{{DivideInt .Index .size}}", "$(i // 3)", id="arithmetic of the index"),
        pytest.param("{{AddInt 7000 (Mod .Index (DivideInt .Count .size))}}", "$(7000 + i % 4)", id="nested"),
        pytest.param("{{MultiplyInt (AddInt .Index 1) 2}}", "$((i + 1) * 2)", id="brackets"),
        pytest.param("{{SubtractInt 9 (SubtractInt .Index 1)}}", "$(9 - (i - 1))", id="brackets on the right"),
        pytest.param("{{$n := or .missing 2}}{{range $n}}[{{.}}]{{end}}", "[0][1]", id="range over a number"),
        pytest.param("{{range $k := .list}}{{$k}}-{{$.size}} {{end}}", "a-3 b-3 ", id="range over a list"),
        pytest.param("{{range .missing}}x{{else}}none{{end}}", "none", id="range over nothing"),
        pytest.param('{{if eq .class "example.com/gpu"}}yes{{else}}no{{end}}', "yes", id="if"),
        pytest.param("{{if .missing}}yes{{else}}no{{end}}", "no", id="else"),
        pytest.param("{{(or .missing nil) | JSON}} {{.list | JSON}}", 'null ["a","b"]', id="JSON"),
        pytest.param("a {{- /* said */ -}} b{{ `c` }}", "abc", id="white space"),
        pytest.param("{{.missing}}", "<no value>", id="no value"),
    ],
)
def test_rendered(text: str, found: str) -> None:
    """What depends on the index becomes a place; the rest is what Go makes of it."""
    assert render(text, VALUES) == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("{{if .Index}}x{{end}}", "a condition on i: expected one that is the same for all", id="if"),
        pytest.param("{{if eq .Index 1}}x{{end}}", "a condition on i", id="eq"),
        pytest.param("{{if .size}}x", "{{if}}: no {{end}}", id="no end"),
        pytest.param("x{{end}}", "{{end}}: nothing is open there", id="no beginning"),
        pytest.param("{{printf .size}}", "printf: expected one of AddInt", id="function"),
        pytest.param("{{Mod .size 0}}", "Mod 3 0: ", id="zero"),
        pytest.param("{{Int .class}}", "Int example.com/gpu: ", id="no number"),
        pytest.param("{{.size .size}}", ".size: not expected there", id="two values"),
        pytest.param("{{.size ? 1}}", "{{.size ? 1}}: not understood", id="sign"),
        pytest.param("{{range .class}}{{end}}", "range over example.com/gpu: expected", id="range"),
        pytest.param("{{MultiplyInt (AddInt (MultiplyInt (AddInt .Index 1) 2) 1) 2}}", "fewer brackets", id="deep"),
        pytest.param(r'{{ "a\x41" }}', r'"a\x41": expected a text that JSON', id="escapes"),
    ],
)
def test_refused(text: str, said: str) -> None:
    """What can't be carried out is named."""
    with pytest.raises(GoTemplateError) as error:
        render(text, VALUES)
    assert said in str(error.value)

"""Arguments have the same forms for all commands, and one without a name is refused in one line."""

from pathlib import Path

import pytest
import yaml

from podberth.cli.errors import InputError
from podberth.cli.subject import Group, Owner, PodName, subject
from tests.unit.cli.conftest import Berth
from tests.unit.cli.fuzzed import DEPLOYMENT

NAMELESS = [
    "",
    " ",
    "/",
    "job/",
    "deploy/",
    "podgroup/",
    "cpg/",
    "pod/",
    "shop/",
    "/x",
    "a/b/c",
    "deploy//web",
    "job/ ",
]
ANY = "or NAMESPACE/NAME, or KIND/NAME of what has pods, such as deploy/web, job/x or podgroup/train"


@pytest.mark.parametrize(
    ("argument", "found"),
    [
        ("web", PodName(None, "web")),
        ("shop/web", PodName("shop", "web")),
        ("pod/web", PodName(None, "web")),
        ("Deploy/web", Owner("Deployment", "web")),
        ("jobs.batch/x", Owner("Job", "x")),
        ("deployments.v1.apps/x", Owner("Deployment", "x")),
        ("rc/x", Owner("ReplicationController", "x")),
        ("pg/train", Group("", "train")),
        ("podgroups.scheduling.x-k8s.io/train", Group("scheduling.x-k8s.io", "train")),
    ],
)
def test_forms(argument: str, found: object) -> None:
    """As kubectl takes them."""
    assert subject(argument) == found


@pytest.mark.parametrize("argument", NAMELESS)
def test_without_a_name(berth: Berth, argument: str) -> None:
    """Said before any cluster is asked. It was `Job : no pod in namespace default is owned by it`."""
    Path("made.yaml").write_text(yaml.safe_dump(DEPLOYMENT))
    with pytest.raises(InputError, match="expected a pod's name"):
        subject(argument)
    shown = f'berth: "{argument}": expected a'
    for words, wanted in (
        (("explain", argument), f"{shown} pod's name, {ANY}\n"),
        (("explain", argument, "--cluster", "cluster.json"), f"{shown} pod's name, {ANY}\n"),
        (("explain", argument, "-f", "made.yaml"), f"{shown} pod's name, {ANY}\n"),
        (("capacity", argument, "-f", "made.yaml"), f"{shown} name, or KIND/NAME, such as web or deploy/web\n"),
        (("story", argument), f"{shown} pod's name, or NAMESPACE/NAME\n"),
    ):
        found = berth(*words)
        assert (found.code, found.out, found.err) == (2, "", wanted)


@pytest.mark.parametrize("command", ["explain", "capacity"])
@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("d", ""),
        ("deploy/d", ""),
        ("Deployment/d", ""),
        ("shop/d", ""),
        ("job/d", "Job named d"),
        ("pg/d", "pod group named d"),
        ("deploy/e", "Deployment named e"),
        ("e", "pod named e"),
    ],
)
def test_of_a_file(berth: Berth, command: str, argument: str, said: str) -> None:
    """By name, by kind and name, or with its namespace; a kind that it is not was passed over."""
    Path("made.yaml").write_text(yaml.safe_dump(DEPLOYMENT))
    found = berth(command, argument, "-f", "made.yaml", "--cluster", "cluster.json")
    assert (found.code == 2, bool(found.out)) == (bool(said), not said)
    assert said in found.err


@pytest.mark.parametrize("command", ["explain", "capacity"])
def test_the_namespace_of_an_argument_counts(berth: Berth, command: str) -> None:
    """As -n does; both together have to agree, and so has the file."""
    nowhere = {**DEPLOYMENT, "metadata": {"name": "d"}}
    Path("nowhere.yaml").write_text(yaml.safe_dump(nowhere))
    Path("shop.yaml").write_text(yaml.safe_dump(DEPLOYMENT))
    found = berth(command, "far/d", "-f", "nowhere.yaml", "--cluster", "cluster.json")
    assert (found.code, found.err) == (0, "")
    assert "far/d" in found.out
    found = berth(command, "far/d", "-n", "other", "-f", "nowhere.yaml", "--cluster", "cluster.json")
    assert (found.code, found.out) == (2, "")
    assert "far/d: the pod's namespace is far, and -n says other" in found.err
    found = berth(command, "far/d", "-f", "shop.yaml", "--cluster", "cluster.json")
    assert (found.code, found.out) == (2, "")
    assert 'metadata.namespace: "shop": expected far' in found.err


@pytest.mark.parametrize("given", ["", "Bad", "a b", "a.b", "x" * 64])
@pytest.mark.parametrize(
    "words",
    [
        ("explain", "web"),
        ("simulate", "--drain", "a"),
        ("capacity", "-f", "x"),
        ("story", "x"),
        ("policy", "lint", "x"),
        ("policy", "eval"),
        ("policy", "impact"),
        ("policy", "compile", "-f", "x"),
    ],
    ids=" ".join,
)
def test_a_namespace_that_none_can_be(berth: Berth, words: tuple[str, ...], given: str) -> None:
    """An empty variable of a shell is no namespace; nothing is read before."""
    found = berth(*words, "-n", given)
    assert (found.code, found.out) == (2, "")
    assert found.err == f'berth: -n: "{given}": expected the name of a namespace\n'


@pytest.mark.parametrize(("given", "said"), [("", "expected labels"), (" ", "expected labels"), ("a b", "found 'b'")])
@pytest.mark.parametrize("words", [("explain",), ("simulate", "--removable")], ids=" ".join)
def test_a_selector_that_selects_nothing(berth: Berth, words: tuple[str, ...], given: str, said: str) -> None:
    """An empty one selected everything; nothing is read before."""
    found = berth(*words, "-l", given)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f'berth: --selector: "{given}": ')
    assert said in found.err
    assert len(found.err.splitlines()) == 1

"""`berth policy`: try policies on objects, and find what is wrong with them; a cluster is at most read."""

import sys
from functools import partial
from typing import Annotated, Any

import msgspec
import typer

from podberth.cli import policy_options as shared
from podberth.cli import policy_output as out
from podberth.cli import services
from podberth.cli.declared import typed
from podberth.cli.errors import FOUND, WRONG, Faults, InputError, complain
from podberth.cli.inputs import lines, named
from podberth.cli.options import RequestTimeout, seconds
from podberth.cli.output import Output, as_data, as_json
from podberth.cli.policy_compile import compile_policies
from podberth.cli.policy_inputs import (
    accepted,
    all_objects,
    given_options,
    one_object,
    owner_document,
    policy_documents,
    read_policies,
    run_tests,
    test_files,
)
from podberth.explain.report.wording import printable
from podberth.model.mistakes import misfit
from podberth.model.selectors import Requirement
from podberth.policy import cases, impact, options, owners, withheld
from podberth.policy.analyse import analyse
from podberth.policy.findings import Finding
from podberth.policy.objects import namespace as namespace_in
from podberth.policy.parse import PolicyError, parse
from podberth.policy.spec import Policies, Policy

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Try MetadataPolicies on objects, and find mistakes in them."
)

app.command("compile")(typed(compile_policies))

Form = Annotated[Output, typer.Option("-o", "--output", help="The form of the answer.")]


@app.command("eval")
@typed
def evaluate(
    file: Annotated[
        str | None, typer.Option("-f", "--filename", help="The file with the object; - is standard input.")
    ] = None,
    policies: Annotated[list[str] | None, typer.Option(help="Files or directories of MetadataPolicies.")] = None,
    old: Annotated[
        str | None, typer.Option(help="The object before an update. Without it, the object is created.")
    ] = None,
    namespace: shared.Namespace = None,
    scheduler: shared.Live = None,
    owner: shared.Owner = None,
    own_namespace: shared.OwnNamespace = "",
    allow_prefix: services.Allowed = None,
    reserve_prefix: services.ReservedToo = None,
    reserve_known: services.ReserveKnown = True,
    more: Annotated[
        str | None,
        typer.Option("--options", help='Options as in a file of --cases, in JSON: {"liveSchedulers":["berth"]} …'),
    ] = None,
    cases_file: Annotated[
        str | None, typer.Option("--cases", help="Answer each case of a file: one line of JSON in, one out.")
    ] = None,
    output: Form = Output.TABLE,
) -> int:
    """Try policies on one object: is it allowed, what do they change, what do they warn of? Exit code 1 when denied."""
    if cases_file is not None:
        return _answer_all(cases_file)
    if file is None or not policies:
        raise InputError("give an object with -f FILE and policies with --policies FILE, or --cases FILE")
    flags = {
        "namespace": namespace,
        "ownNamespace": own_namespace,
        "liveSchedulers": scheduler,
        "ownerSelectors": [owner_document(text) for text in owner or ()],
        "allowedPrefixes": allow_prefix,
        "reservedPrefixes": reserve_prefix,
    }
    given = given_options(more, flags) | ({} if reserve_known else {"reserveKnown": False})
    faults = Faults()
    held = accepted(policies, faults, options.parse(given).allowed_prefixes)
    objects: list[Any] = []
    for path in (file,) if old is None else (file, old):
        with faults.noting():
            objects.append(one_object(path, namespace))
    faults.tell()
    if not namespace and not namespace_in(objects[0]) and any(policy.namespace for _, policy in held):
        complain([f"{named(file)}: names no namespace, so it meets the policies of all; -n says which it will be in"])
    case = {
        "policies": [document for document, _ in held],
        "operation": "CREATE" if old is None else "UPDATE",
        "object": objects[0],
        "oldObject": objects[1] if old is not None else None,
        "options": given,
    }
    got = cases.answer(case)
    as_data(got, output) if output is not Output.TABLE else out.verdict(got)
    return 0 if got["allowed"] else FOUND


@app.command()
@typed
def lint(
    files: Annotated[list[str], typer.Argument(help="Files or directories of MetadataPolicies.")],
    namespace: shared.Namespace = None,
    scheduler: shared.Live = None,
    owner: shared.Owner = None,
    allow_prefix: services.Allowed = None,
    reserve_prefix: services.ReservedToo = None,
    reserve_known: services.ReserveKnown = True,
    output: Form = Output.TABLE,
) -> int:
    """Find mistakes in policies: bad specs, rules that never match, conflicts, policies that reject their own changes.

    The policies of each namespace are looked at together, as if all were in mode enforce. Exit code 1 when something is
    found.
    """
    sound: list[Policy] = []
    criteria: dict[Requirement, Requirement] = {}
    findings: list[Finding] = []
    faults = Faults()
    for place, document in policy_documents(files, faults):
        if namespace and cases.namespace_of(document) not in ("", namespace):
            continue
        try:
            sound.append(parse(document, tuple(allow_prefix or ()), criteria=criteria, new=True))
        except PolicyError as error:
            name = cases.name_of(document, place)
            findings += [Finding("invalid", (name,), (), f"{place}: {problem}") for problem in error.problems]
    if faults.noted:  # policies can't be looked at together while some can't be read
        for finding in findings:
            with faults.noting():
                raise InputError(finding.message)
    faults.tell()
    given = shared.chosen(namespace, "", scheduler, owner, allow_prefix, reserve_prefix, reserve_known)
    ask = partial(analyse, owner_selectors=given.owner_selectors, live_schedulers=given.live_schedulers)
    for group in _groups(sound):
        findings += withheld.over(group)
        findings += withheld.report(group.enforced(), ask, given.reserved).findings
    if output is not Output.TABLE:
        as_data({"policies": len(sound), "findings": findings}, output)
    else:
        out.findings(findings, len(sound))
    return FOUND if findings else 0


@app.command("impact")
@typed
def preview(
    policies: Annotated[
        list[str] | None,
        typer.Option(help="Files or directories of MetadataPolicies. Default: those of the live cluster."),
    ] = None,
    cluster: Annotated[
        list[str] | None,
        typer.Option(
            help="Read a file instead of the live cluster: what `kubectl get pods,deploy,… -A -o json` prints. May be "
            "repeated."
        ),
    ] = None,
    namespace: shared.Namespace = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help="A kind of object to look at, as PLURAL, PLURAL.GROUP or PLURAL.VERSION.GROUP; may be repeated."
        ),
    ] = None,
    kubeconfig: Annotated[str | None, typer.Option(help="The kubeconfig file of the live cluster.")] = None,
    context: Annotated[str | None, typer.Option(help="The context of the kubeconfig.")] = None,
    timeout: RequestTimeout = "30s",
    scheduler: shared.Live = None,
    owner: shared.Owner = None,
    own_namespace: shared.OwnNamespace = "",
    allow_prefix: services.Allowed = None,
    reserve_prefix: services.ReservedToo = None,
    reserve_known: services.ReserveKnown = True,
    output: Form = Output.TABLE,
) -> int:
    """Show what policies would do to the objects of a cluster if each were created again: reject, change, reroute.

    A live cluster is only read. Kinds that can't be listed there are named on stderr and left out. Exit code 1 when an
    object would be rejected, or an owner would not find what it makes.
    """
    settings = shared.chosen(namespace, own_namespace, scheduler, owner, allow_prefix, reserve_prefix, reserve_known)
    allowed = settings.allowed_prefixes
    if cluster:
        if not policies or kubeconfig or context or kind:
            raise InputError("--cluster: goes with --policies, and not with --kubeconfig, --context and --kind")
        faults = Faults()
        found = all_objects(cluster, namespace, faults)
        held = [policy for _, policy in accepted(policies, faults, allowed)]
        faults.tell()
        result = impact.impact(
            Policies(held).of(namespace or ""), found, settings, filter(None, map(owners.read, found))
        )
    else:
        from podberth.cli.policy_live import cluster_impact

        result = cluster_impact(
            read_policies(policies, allowed).of(namespace or "") if policies else None,
            kubeconfig,
            context,
            kind or [],
            namespace,
            settings,
            seconds(timeout),
        )
    as_data(result, output) if output is not Output.TABLE else out.impact(result)
    return FOUND if result.total.rejected or result.losses else 0


@app.command()
def test(
    directory: Annotated[str, typer.Argument(help="A directory with test files (YAML with `policies` and `cases`).")],
    output: Form = Output.TABLE,
) -> int:
    """Run the tests of policies: files with `policies` and `cases`. Exit code 1 when a case fails."""
    faults = Faults()
    results = [result for path in test_files(directory) for result in run_tests(path, faults)]
    faults.tell()
    if not results:
        raise InputError(f"{directory}: holds no test: expected YAML files with `policies` and `cases`")
    failed = sum(bool(result["failures"]) for result in results)
    if output is not Output.TABLE:
        as_data({"passed": len(results) - failed, "failed": failed, "cases": results}, output)
    else:
        out.tests(results)
    return FOUND if failed else 0


def _answer_all(path: str) -> int:
    """A line out for each line in, whatever is wrong with some of them."""
    code = 0
    for number, line in enumerate(lines(path), start=1):
        name: object = f"line {number}"
        try:
            case = msgspec.json.decode(line)
            name = case.get("id", name) if isinstance(case, dict) else name
            as_json(msgspec.json.encode({"id": name, "got": cases.answer(case)}))
        except (cases.CaseError, msgspec.DecodeError, RecursionError) as error:
            as_json(msgspec.json.encode({"id": name, "error": _lowered(error)}))
            print(f"berth: {named(path)}: line {number}: {printable(_lowered(error))}", file=sys.stderr)
            code = WRONG
    return code


def _groups(accepted: list[Policy]) -> list[Policies]:
    """Policies that apply together: those of each namespace, with those that name no namespace."""
    everywhere = Policies(accepted)
    return [everywhere.of(namespace) for namespace in sorted({p.namespace for p in accepted if p.namespace}) or [""]]


def _lowered(error: BaseException) -> str:
    text = misfit(error) if isinstance(error, RecursionError) else " ".join(str(error).split())
    return f"{text[:1].lower()}{text[1:]}"

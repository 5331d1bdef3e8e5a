"""`berth policy`: try policies on objects, and find what is wrong with them. No cluster is asked."""

import sys
from collections.abc import Iterator, Sequence
from importlib.resources import files as packaged
from typing import Annotated, Any

import msgspec
import typer

from podberth.cli import options, services
from podberth.cli.errors import FOUND, WRONG, Faults, InputError, complain
from podberth.cli.inputs import lines, named
from podberth.cli.output import DataOutput, Output, as_cells, as_data, as_json, yaml_of
from podberth.cli.policy_inputs import (
    accepted,
    all_objects,
    one_object,
    owner_selector,
    policy_documents,
    read_policies,
    run_tests,
    test_files,
)
from podberth.cli.services import typed
from podberth.explain.report.wording import count, printable
from podberth.model.mistakes import misfit
from podberth.model.selectors import Requirement
from podberth.policy import cases, impact, keys
from podberth.policy.analyse import Finding, analyse, left_out
from podberth.policy.evaluate import admitted
from podberth.policy.exempt import NAMESPACES
from podberth.policy.impact import Impact
from podberth.policy.keys import Reserved
from podberth.policy.native.admission_policies import admission_policies
from podberth.policy.native.policy_set import Source, policy_set
from podberth.policy.objects import namespace as namespace_in
from podberth.policy.options import Options, unknown
from podberth.policy.parse import PolicyError, parse
from podberth.policy.spec import Policies, Policy

_NAMES = 6
_EXAMPLE = 1000
"""Characters of an example that a table shows."""
Namespace = Annotated[
    str | None,
    typer.Option(
        "-n",
        "--namespace",
        help="Look at this namespace only: what is in it, and what names no namespace in its file.",
        callback=options.namespace,
    ),
]
OwnNamespace = Annotated[
    str, typer.Option("--own-namespace", help="The namespace that Berth runs in; no policy applies there.")
]
Live = Annotated[
    list[str] | None,
    typer.Option(
        "--profile",
        help="A schedulerName that is served; policies that send pods elsewhere are reported. May be repeated.",
    ),
]
Owner = Annotated[
    list[str] | None,
    typer.Option(
        "--owner-selector",
        help='A label selector by which a controller finds its pods: {"matchLabels": …}; may be repeated.',
    ),
]
LONGEST_RELEASE = 53
"""Characters, as Helm has it."""
Form = Annotated[Output, typer.Option("-o", "--output", help="The form of the answer.")]


def _print_verdict(got: dict[str, Any]) -> None:
    """The verdict on one object."""
    print("allowed" if got["allowed"] else printable(f"denied: {got['message']}"))
    for operation in got["patch"]:
        value = msgspec.json.encode(operation["value"]).decode()
        print(printable(f"  {operation['op']} {operation['path']} {value}"))
    for warning in got["warnings"]:
        print(printable(f"warning: {warning}"))


def _print_findings(found: Sequence[Finding], policies: int) -> None:
    """Print what lint found: one row each, and the example object below."""
    if not found:
        print(f"{_policies(policies)}, nothing found")
        return
    cells = [(each.kind, _named(each.rules or each.policies), _finding_told(each)) for each in found]
    as_cells(("FINDING", "RULES", "WHAT"), (), cells)
    print(f"{_policies(policies)}, {count(len(found), 'finding')}")


def _print_impact(found: Impact) -> None:
    """The counts of an impact preview."""
    total = found.total
    print(
        f"{total.objects} objects: {total.rejected} would be rejected, {total.relabelled} relabelled, "
        f"{total.exempt} exempt"
    )
    kinds = [
        (name, str(kind.objects), str(kind.rejected), str(kind.relabelled), str(kind.exempt))
        for name, kind in sorted(found.kinds.items())
    ]
    policies = [(name, str(each.rejected), str(each.relabelled)) for name, each in sorted(found.policies.items())]
    moves = [
        (now, "stays" if then == now else then, str(pods))
        for now, targets in sorted(found.schedulers.items())
        for then, pods in sorted(targets.items())
    ]
    as_cells(["KIND"], ("OBJECTS", "REJECTED", "RELABELLED", "EXEMPT"), kinds)
    as_cells(["POLICY"], ("REJECTS", "RELABELS"), policies)
    as_cells(("SCHEDULER NOW", "THEN"), ["PODS"], moves)
    for rejection in found.rejections:
        name = f"{rejection.kind} {rejection.namespace}/{rejection.name}"
        print(printable(f"rejected: {name}: {rejection.message}"))
    for loss in found.losses:
        name = f"{loss.kind} {loss.namespace}/{loss.name}"
        print(printable(f'{name} would not find what it makes: {loss.policy} writes label {loss.label}="{loss.value}"'))
    for warning, objects in found.warnings.items():
        print(printable(f"warning for {objects} objects: {warning}"))


def _print_tests(results: Sequence[dict[str, Any]]) -> None:
    """One line for each case, and below a failed one what differs."""
    failed = 0
    for result in results:
        failed += bool(result["failures"])
        sign = "✗" if result["failures"] else "✓"
        print(printable(f"{sign} {result['file']}: {result['name']}"))
        for failure in result["failures"]:
            print(printable(f"    {failure}"))
    print(f"{len(results) - failed} passed, {failed} failed")


def _policies(number: int) -> str:
    return f"{number} {'policy' if number == 1 else 'policies'}"


def _named(names: Sequence[str]) -> str:
    """The names, or the first few of many."""
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(names[:_NAMES]) + more


def _finding_told(finding: Finding) -> str:
    if finding.example is None:
        return printable(finding.message)
    shown = {"kind": finding.example["kind"]}
    metadata = finding.example["metadata"]
    shown |= {field: metadata[field] for field in ("labels", "annotations") if field in metadata}
    containers = finding.example.get("spec", {}).get("containers", [])
    shown |= {field: value for container in containers for field, value in container.items() if field == "resources"}
    example = msgspec.json.encode(shown).decode()
    if len(example) > _EXAMPLE:
        example = f"{example[:_EXAMPLE]}… (-o json shows all of it)"
    return printable(f"{finding.message}. Example: {example}")


def chosen(
    namespace: str | None,
    own_namespace: str,
    live: list[str] | None,
    owner: list[str] | None,
    allowed: list[str] | None,
    reserved: list[str] | None,
    reserve_known: bool,
) -> Options:
    """Return what these options come to. Raises InputError."""
    return Options(
        namespace=namespace or "",
        own_namespace=own_namespace,
        allowed_prefixes=tuple(allowed or ()),
        live_schedulers=frozenset(live) if live else None,
        owner_selectors=tuple(owner_selector(text) for text in owner or ()),
        reserved_prefixes=tuple(prefix.lower() for prefix in reserved or ()),
        reserve_known=reserve_known,
    )


def compile_policies(
    files: Annotated[
        list[str],
        typer.Option("-f", "--filename", help="Files or directories of MetadataPolicies; - is standard input."),
    ],
    namespace: Annotated[
        str | None,
        typer.Option("-n", "--namespace", help="The namespace of policies that name none.", callback=options.namespace),
    ] = None,
    release: Annotated[
        str, typer.Option(help="The release of Berth whose objects these are; their names begin with it.")
    ] = "berth",
    allow_prefix: services.Allowed = None,
    reserve_prefix: services.ReservedToo = None,
    reserve_known: services.ReserveKnown = True,
    stamp: services.Stamp = True,
    objects: Annotated[
        bool,
        typer.Option("--admission-policies", help="Print the release's admission policies before the sets they read."),
    ] = False,
    operator: Annotated[
        str, typer.Option(help="With --admission-policies: the user who alone may write sets.")
    ] = "system:serviceaccount:berth:berth-operator",
    output: Annotated[DataOutput, typer.Option("-o", "--output", help="The form of the objects.")] = DataOutput.YAML,
) -> int:
    """Write policies as the API server enforces them by itself (Kubernetes 1.36 and newer), without a webhook: the set
    of each namespace, which the admission policies of a release read.

    Nothing is read from a cluster or written to it: `kubectl apply -f -` takes what this prints. Policies that cost the
    API server too much are named on stderr with the reason, and the exit code is 1.
    """
    if not keys.is_subdomain(release) or len(release) > LONGEST_RELEASE:
        raise InputError(
            f"--release: {release[:60]}: expected a name of at most {LONGEST_RELEASE} small letters, digits, - and ."
        )
    allowed = tuple(allow_prefix or ())
    reserved = Reserved(reserve_known, tuple(prefix.lower() for prefix in reserve_prefix or ()), allowed)
    sets = {
        place: policy_set([Source(policy, "", 0) for policy in here.policies], place, release, reserved)
        for place, here in _by_namespace(read_policies(files, allowed), namespace)
    }
    printed = list(admission_policies(release, operator, NAMESPACES, stamp=stamp)) if objects else []
    printed += [found.document for found in sets.values() if found.document is not None]
    if output is DataOutput.JSON:
        as_data({"apiVersion": "v1", "kind": "List", "items": printed}, output)
    else:
        sys.stdout.writelines(f"---\n{yaml_of(one, width=1_000_000)}" for one in printed)
    left = [(f"{place}/{name}", why) for place, found in sets.items() for name, why in found.left.items()]
    for place, why in left:
        complain([f"MetadataPolicy {place} is left out: {why}"])
    return FOUND if left else 0


def _by_namespace(policies: Policies, default: str | None) -> Iterator[tuple[str, Policies]]:
    """Policies of each namespace; those that name none are the default's."""
    found: dict[str, list[Any]] = {}
    for policy in policies.policies:
        place = policy.namespace or default
        if not place:
            raise InputError(f"MetadataPolicy {policy.name}: metadata.namespace: absent: give it with -n NAMESPACE")
        if place in NAMESPACES:
            raise InputError(f"MetadataPolicy {policy.name}: namespace {place}: no policy applies there")
        found.setdefault(place, []).append(policy)
    for place, held in sorted(found.items()):
        names = [policy.name for policy in held]
        for name in names:
            if names.count(name) > 1:
                raise InputError(f"MetadataPolicy {name}: namespace {place}: is there twice: expected each name once")
        yield place, Policies(held)


app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Try MetadataPolicies on objects, and find mistakes in them."
)

app.command("compile")(typed(compile_policies))


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
    namespace: Namespace = None,
    scheduler: Live = None,
    owner: Owner = None,
    own_namespace: OwnNamespace = "",
    allow_prefix: services.Allowed = None,
    reserve_prefix: services.ReservedToo = None,
    reserve_known: services.ReserveKnown = True,
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
    given = chosen(namespace, own_namespace, scheduler, owner, allow_prefix, reserve_prefix, reserve_known)
    faults = Faults()
    held = accepted(policies, faults, given.allowed_prefixes)
    objects: list[Any] = []
    for path in (file,) if old is None else (file, old):
        with faults.noting():
            objects.append(one_object(path, namespace))
    faults.tell()
    if not namespace and not namespace_in(objects[0]) and any(policy.namespace for policy in held):
        complain([f"{named(file)}: names no namespace, so it meets the policies of all; -n says which it will be in"])
    there = given.namespace or namespace_in(objects[0])
    complain(
        [
            f"MetadataPolicy {policy.name} is in namespace {policy.namespace}, and does not apply in {there}"
            for policy in held
            if there and policy.namespace not in ("", there)
        ]
    )
    before = None if old is None else objects[1]
    found = admitted(Policies(held), "CREATE" if old is None else "UPDATE", objects[0], before, given)
    got = cases.promised(found)
    as_data(got, output) if output is not Output.TABLE else _print_verdict(got)
    return 0 if got["allowed"] else FOUND


@app.command()
@typed
def lint(
    files: Annotated[list[str], typer.Argument(help="Files or directories of MetadataPolicies.")],
    namespace: Namespace = None,
    scheduler: Live = None,
    owner: Owner = None,
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
    faults, policies = Faults(), 0
    for place, document in policy_documents(files, faults):
        if namespace and cases.namespace_of(document) not in ("", namespace):
            continue
        policies += 1
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
    given = chosen(namespace, "", scheduler, owner, allow_prefix, reserve_prefix, reserve_known)
    for group in _groups(sound):
        findings += left_out(group)
        findings += analyse(
            group.enforced(), given.owner_selectors, given.live_schedulers, reserved=given.reserved
        ).findings
    if output is not Output.TABLE:
        as_data({"policies": policies, "findings": findings}, output)
    else:
        _print_findings(findings, policies)
    return FOUND if findings else 0


@app.command("impact")
@typed
def preview(
    policies: Annotated[list[str], typer.Option(help="Files or directories of MetadataPolicies.")],
    cluster: Annotated[
        list[str],
        typer.Option(
            help="A file with the objects: what `kubectl get pods,deploy,… -A -o json` prints; - is standard input. "
            "May be repeated."
        ),
    ],
    namespace: Namespace = None,
    scheduler: Live = None,
    owner: Owner = None,
    own_namespace: OwnNamespace = "",
    allow_prefix: services.Allowed = None,
    reserve_prefix: services.ReservedToo = None,
    reserve_known: services.ReserveKnown = True,
    output: Form = Output.TABLE,
) -> int:
    """Show what policies would do to the objects of a cluster if each were created again: reject, change, reroute.

    Exit code 1 when an object would be rejected, or an owner would not find what it makes.
    """
    settings = chosen(namespace, own_namespace, scheduler, owner, allow_prefix, reserve_prefix, reserve_known)
    faults = Faults()
    found = all_objects(cluster, namespace, faults)
    held = accepted(policies, faults, settings.allowed_prefixes)
    faults.tell()
    result = impact.impact(Policies(held).of(namespace or ""), found, settings, filter(None, map(impact.owner, found)))
    as_data(result, output) if output is not Output.TABLE else _print_impact(result)
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
        _print_tests(results)
    return FOUND if failed else 0


@app.command()
def schema() -> None:
    """Print the JSON Schema of a MetadataPolicy, by which an editor completes and checks one.

    Write it to a file, and name the file in the first line of the policy: # yaml-language-server: $schema=FILE
    """
    as_json(packaged("podberth.policy").joinpath("schema.json").read_bytes().rstrip())


def _answer_all(path: str) -> int:
    """A line out for each line in, whatever is wrong with some of them."""
    code = 0
    for number, line in enumerate(lines(path), start=1):
        name: object = f"line {number}"
        try:
            case = msgspec.json.decode(line)
            name = case.get("id", name) if isinstance(case, dict) else name
            as_json(msgspec.json.encode({"id": name, "got": cases.answer(case)}))
            if (wrong := unknown(case.get("options") or {})) is not None:
                complain([f"{named(path)}: line {number}: {wrong}; left out"])
        except (cases.CaseError, msgspec.DecodeError, RecursionError) as error:
            as_json(msgspec.json.encode({"id": name, "error": _lowered(error)}))
            complain([f"{named(path)}: line {number}: {_lowered(error)}"])
            code = WRONG
    return code


def _groups(accepted: list[Policy]) -> list[Policies]:
    """Policies that apply together: those of each namespace, with those that name no namespace."""
    everywhere = Policies(accepted)
    return [everywhere.of(namespace) for namespace in sorted({p.namespace for p in accepted if p.namespace}) or [""]]


def _lowered(error: BaseException) -> str:
    text = misfit(error) if isinstance(error, RecursionError) else " ".join(str(error).split())
    return f"{text[:1].lower()}{text[1:]}"

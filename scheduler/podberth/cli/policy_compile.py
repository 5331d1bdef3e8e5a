"""`berth policy compile`: MetadataPolicies as the API server's own admission policies, to be read or applied."""

import sys
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from podberth.cli import options, services
from podberth.cli.errors import FOUND, InputError
from podberth.cli.output import DataOutput, as_data, yaml_of
from podberth.cli.policy_inputs import read_policies
from podberth.explain.report.wording import printable
from podberth.policy import keys
from podberth.policy.exempt import NAMESPACES
from podberth.policy.native.compile import Compiled, compile_namespace
from podberth.policy.powers import Reserved
from podberth.policy.spec import Policies

LONGEST_RELEASE = 53
"""Characters, as Helm has it."""


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
    output: Annotated[DataOutput, typer.Option("-o", "--output", help="The form of the objects.")] = DataOutput.YAML,
) -> int:
    """Write policies as the API server's own admission policies (Kubernetes 1.36 and newer), which need no webhook.

    Nothing is read from a cluster or written to it: `kubectl apply -f -` takes what this prints. Policies that cost the
    API server too much are named on stderr with the reason, and the exit code is 1.
    """
    if not keys.is_subdomain(release) or len(release) > LONGEST_RELEASE:
        raise InputError(
            f"--release: {release[:60]}: expected a name of at most {LONGEST_RELEASE} small letters, digits, - and ."
        )
    allowed = tuple(allow_prefix or ())
    reserved = Reserved(reserve_known, tuple(prefix.lower() for prefix in reserve_prefix or ()), allowed)
    compiled = [
        (place, compile_namespace(here, place, release, reserved, stamp=stamp))
        for place, here in _by_namespace(read_policies(files, allowed), namespace)
    ]
    objects = [one for _, found in compiled for one in found.objects]
    if output is DataOutput.JSON:
        as_data({"apiVersion": "v1", "kind": "List", "items": objects}, output)
    else:
        for _, found in compiled:
            sys.stdout.writelines(_documents(found))
    left = [(f"{place}/{name}", why) for place, found in compiled for name, why in found.left.items()]
    for named, why in left:
        print(f"berth: MetadataPolicy {named} is left out: {printable(why)}", file=sys.stderr)
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


def _documents(compiled: Compiled) -> Iterator[str]:
    """Each object as a document, with a comment above each expression that a rule became."""
    for one in compiled.objects:
        yield "---\n"
        for line in yaml_of(one, width=1_000_000).splitlines():
            indent = line[: len(line) - len(line.lstrip())]
            for comment in _comment(line, compiled.comments).splitlines():
                yield f"{indent}# {printable(comment)}\n"
            yield f"{line}\n"


def _comment(line: str, comments: Mapping[str, str]) -> str:
    before, name_is, name = line.partition("- name: ")
    return comments.get(name, "") if name_is and not before.strip() else ""

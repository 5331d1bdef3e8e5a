"""KubeSchedulerConfiguration v1: strict decoding, defaults, and the errors in the API's own grammar.

Mirrors kube-scheduler `apis/config/v1/defaults.go`, `default_plugins.go` and `apis/config/validation`.
"""

import re
from copy import deepcopy
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from podberth.model.limits import LIMITS, Limits
from podberth.model.mistakes import as_json, in_words, kind_of, unknown_fields
from podberth.model.resources import is_extended

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"
DEFAULT_SCHEDULER_NAME = "berth"
MAX_WEIGHT = (1 << 63) // 100 // 1000
"""With it, the scores of a thousand plugins add up to no more than an int64 holds."""
Target = TypeVar("Target")
Percent = Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": 100})]
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST = (1 << 63) / 1e9
"""Seconds: Go counts nanoseconds in an int64."""
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_WHOLE = re.compile(rf"(?P<sign>[+-]?)(?P<parts>0|(?:{_PART.pattern})+)")


class ConfigError(ValueError):
    """A configuration that can't be used. Each line of the text names a field, its value and what was expected."""


class Strict(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """Unknown fields are errors."""


class PluginRef(Strict, frozen=True):
    name: str
    """A plugin. In `disabled`, `*` stands for all defaults."""
    weight: int | None = None
    """A plugin's scores are multiplied by it; 0 and absent stand for 1. It has no effect in `disabled`."""


class PluginSet(Strict, frozen=True):
    enabled: list[PluginRef] = []
    """Plugins that run, in this order."""
    disabled: list[PluginRef] = []
    """Plugins of multiPoint, the defaults among them, that do not run here; `*` stands for all of them."""


class Plugins(Strict, frozen=True):
    """Enabled and disabled plugins by extension point. The last three are kube-scheduler's for groups of pods."""

    pre_enqueue: PluginSet = PluginSet()
    """Keeps a pod out of the active queue."""
    queue_sort: PluginSet = PluginSet()
    """The order of the queue: exactly one plugin, the same for all profiles."""
    pre_filter: PluginSet = PluginSet()
    """Looks at the pod before any node."""
    filter: PluginSet = PluginSet()
    """Rejects nodes."""
    post_filter: PluginSet = PluginSet()
    """Runs when no node is left (preemption)."""
    pre_score: PluginSet = PluginSet()
    """None of Berth's plugins needs it."""
    score: PluginSet = PluginSet()
    """Ranks the nodes that are left; only here, at placementScore and at multiPoint weights count."""
    reserve: PluginSet = PluginSet()
    """Reserves what the pod needs with the chosen node, such as volumes."""
    permit: PluginSet = PluginSet()
    """May make a pod wait before it is bound."""
    pre_bind: PluginSet = PluginSet()
    """Does what is needed before the pod can be bound."""
    bind: PluginSet = PluginSet()
    """Binds the pod; at least one plugin is needed."""
    post_bind: PluginSet = PluginSet()
    """Runs after the pod was bound."""
    multi_point: PluginSet = PluginSet()
    """Enables a plugin at every extension point that it has."""
    placement_generate: PluginSet = PluginSet()
    """Says on which sets of nodes a pod group may be; at most one plugin, by default none."""
    placement_score: PluginSet = PluginSet()
    """Ranks these sets; its weights are its own."""
    pod_group_post_filter: PluginSet = PluginSet()
    """Has to be empty: the plugins at postFilter are asked about groups of pods, too."""


class PluginConfig(Strict, frozen=True):
    name: str
    """A plugin; at most one entry each."""
    args: dict[str, Any] = {}
    """Its arguments; `apiVersion` and `kind` may be among them."""


class ProfileConfig(Strict, frozen=True):
    scheduler_name: str | None = None
    """Pods name it in `spec.schedulerName`. Required, unless there is one profile: then it is `berth`."""
    percentage_of_nodes_to_score: Percent | None = None
    """The percentage of nodes that are scored for this profile. Absent: that of the whole file."""
    plugins: Plugins = Plugins()
    """Plugins that are enabled and disabled, by extension point."""
    plugin_config: list[PluginConfig] = []
    """Arguments of plugins."""


class LeaderElection(Strict, frozen=True):
    leader_elect: bool = True
    """The replicas elect a leader, and only the leader schedules. With `false`, the process keeps the Lease
    `berth-heartbeat` (`resourceName` with `-heartbeat`), by which policies see that their scheduler lives."""
    lease_duration: str = "15s"
    """The Lease is valid for so long without being renewed; longer than renewDeadline."""
    renew_deadline: str = "10s"
    """The leader tries for so long to renew it before it stops; longer than retryPeriod."""
    retry_period: str = "2s"
    """A replica waits for so long between two tries; greater than 0."""
    resource_lock: str = "leases"
    """Accepted, no effect: it is always a Lease."""
    resource_name: str = "berth"
    """The name of the Lease; kube-scheduler's is `kube-scheduler`."""
    resource_namespace: str = ""
    """The namespace of the Lease. Empty: that of the pod that Berth runs in; in a shell `berth`."""


class ClientConnection(Strict, frozen=True):
    kubeconfig: str = ""
    """The kubeconfig file; `--kubeconfig` wins."""
    accept_content_types: str = ""
    """Accepted, no effect: lists and watches are JSON."""
    content_type: str = ""
    """Empty or `application/vnd.kubernetes.protobuf`: bindings and events in protobuf, in JSON once the server
    refused that; with anything else they are JSON, as all other writes are."""
    qps: float = 50.0
    """Requests a second."""
    burst: Annotated[int, Meta(extra_json_schema={"minimum": 0})] = 100
    """Requests that may be sent at once before `qps` limits them."""


class TLSConfig(Strict, frozen=True):
    insecure: bool = False
    """Certificates are not checked."""
    server_name: str = ""
    """The name that the certificate has to have."""
    cert_file: str = ""
    """The file with the certificate that Berth shows."""
    key_file: str = ""
    """The file with the key of that certificate."""
    ca_file: str = ""
    """The file with the authorities that may have signed the extender's certificate."""
    cert_data: str = ""
    """The certificate that Berth shows, in base64."""
    key_data: str = ""
    """The key of that certificate, in base64."""
    ca_data: str = ""
    """The authorities that may have signed the extender's certificate, in base64."""


class ManagedResource(Strict, frozen=True):
    name: str
    """An extended resource."""
    ignored_by_scheduler: bool = False
    """NodeResourcesFit ignores the resource."""


class Extender(Strict, frozen=True):
    url_prefix: str = field(name="urlPrefix")
    """The address; verbs are appended."""
    filter_verb: str = ""
    """It is appended for filtering. Empty: the extender does not filter."""
    preempt_verb: str = ""
    """It is appended for preemption. Empty: the extender takes no part in it."""
    prioritize_verb: str = ""
    """It is appended for scoring. Empty: the extender does not score."""
    weight: int = 0
    """Its scores are multiplied by this; greater than 0 with prioritizeVerb."""
    bind_verb: str = ""
    """It is appended for binding. At most one extender binds."""
    enable_https: bool = field(default=False, name="enableHTTPS")
    """Talk HTTPS."""
    tls_config: TLSConfig | None = field(default=None, name="tlsConfig")
    """The way in which the extender's certificate is checked, and the one that Berth shows."""
    http_timeout: str = field(default="5s", name="httpTimeout")
    """The longest time for one call, such as 5s."""
    node_cache_capable: bool = False
    """The extender gets names instead of whole nodes."""
    managed_resources: list[ManagedResource] = []
    """If any are named, the extender is called only for pods that ask for one of them."""
    ignorable: bool = False
    """When the extender fails, scheduling goes on without it."""


class SchedulerConfiguration(Strict, frozen=True):
    """The whole file. Fields without effect here are accepted, so that a kube-scheduler's file can be used."""

    api_version: Annotated[str, Meta(extra_json_schema={"const": API_VERSION})] = field(
        default=API_VERSION, name="apiVersion"
    )
    """The version of this format."""
    kind: Annotated[str, Meta(extra_json_schema={"const": KIND})] = KIND
    """The kind of this file."""
    parallelism: Annotated[int, Meta(extra_json_schema={"minimum": 1})] = 16
    """No effect, since one call of a plugin answers for all nodes."""
    leader_election: LeaderElection = LeaderElection()
    """The election of the one replica that schedules."""
    client_connection: ClientConnection = ClientConnection()
    """The way to the API server."""
    enable_profiling: bool = True
    """Accepted, no effect."""
    enable_contention_profiling: bool = True
    """Accepted, no effect."""
    percentage_of_nodes_to_score: Percent | None = None
    """Absent or 0: every node is scored. To kube-scheduler 0 is a share that shrinks with the cluster."""
    pod_initial_backoff_seconds: Annotated[int, Meta(extra_json_schema={"minimum": 1})] = 1
    """Seconds that a pod waits after its first failure; they double with each."""
    pod_max_backoff_seconds: int = 10
    """The longest backoff, in seconds."""
    limits: Limits = LIMITS
    """Berth's own: what a pod may ask for. The limits may be raised, not lowered."""
    profiles: list[ProfileConfig] = []
    """Each is a scheduler of its own, by the name that pods give in `spec.schedulerName`."""
    extenders: list[Extender] = []
    """HTTP extenders: services that filter and score beside the plugins."""
    delay_cache_until_active: bool = False
    """No effect: a standby fills its cache, too."""


_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
"""A step of a path: a field, or the number of an element."""
_MOST_ERRORS = 50
_MSGSPEC = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?$", re.S)
"""An error of msgspec: what is wrong, and where; any text is one."""
_MISSING = re.compile(r"Object missing required field `([^`]*)`")


def decode(document: Any) -> SchedulerConfiguration:
    """Decode a parsed YAML document.

    Raises ConfigError naming the field and what was expected.
    """
    if not isinstance(document, dict):
        got = "an empty document" if document is None else kind_of(document)
        raise ConfigError(f"Invalid value: want a mapping of kind {KIND}, got {got}")
    for name, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        given = document.get(name)
        if given != wanted:
            problem = "Required value" if given is None else f"Unsupported value: {as_json(given)}"
            raise ConfigError(f'{name}: {problem}: supported values: "{wanted}"')
    config, wrong = _converted(without_nulls(document), SchedulerConfiguration, "")
    if config is None:
        raise ConfigError("\n".join(wrong))
    profiles = config.profiles or [ProfileConfig()]
    if len(profiles) == 1 and profiles[0].scheduler_name is None:
        profiles = [replace(profiles[0], scheduler_name=DEFAULT_SCHEDULER_NAME)]
    config = replace(config, profiles=profiles)
    said = {line.partition(": ")[0] for line in wrong}
    errors = [*wrong, *(line for line in validate(config) if line.partition(": ")[0] not in said)]
    if errors:
        raise ConfigError("\n".join(errors))
    return config


def convert(document: Any, target: type[Target], path: str) -> Target:
    """msgspec.convert with its errors in the API's grammar, below `path`.

    Raises ConfigError with a line for each field that is wrong.
    """
    found, wrong = _converted(document, target, path)
    if wrong or found is None:
        raise ConfigError("\n".join(wrong))
    return found


def _converted(document: Any, target: type[Target], path: str) -> tuple[Target | None, list[str]]:
    """Return what can be read of a document, and what is wrong with the rest; None where nothing is left to read."""
    wrong: list[str] = []
    document = deepcopy(document)
    if issubclass(target, Struct) and target.__struct_config__.forbid_unknown_fields:
        for unknown, meant in list(unknown_fields(document, target, path)):
            wrong.append(_unknown_field(unknown, meant))
            if not _take_out(document, unknown.removeprefix(path)):
                return None, wrong
    while True:
        try:
            return msgspec.convert(document, target), wrong
        except msgspec.ValidationError as error:
            found = _MSGSPEC.match(str(error))
            assert found is not None
            inner = found["path"] or ""
            wrong.append(_grammar(found["what"], path, inner, document))
            if len(wrong) > _MOST_ERRORS or not _take_out(document, inner):
                return None, wrong


def _take_out(document: Any, path: str) -> bool:
    """Remove a field, so that what is beside it can be read; return whether it was removed."""
    steps = _STEP.findall(path)
    if not steps or steps[-1][1]:
        return False  # an element of a list: without it, its successors would have other places
    try:
        for key, index in steps[:-1]:
            document = document[int(index) if index else key]
        del document[steps[-1][0]]
    except (LookupError, TypeError):
        return False  # a key with a dot in it, or one that is missing
    return True


def _unknown_field(path: str, meant: str | None) -> str:
    return f"{path}: Unknown field{f' (did you mean {meant}?)' if meant else ''}"


def without_nulls(document: Any) -> Any:
    """A null field is an absent one, as for every API object."""
    if isinstance(document, dict):
        return {key: without_nulls(value) for key, value in document.items() if value is not None}
    return [without_nulls(value) for value in document] if isinstance(document, list) else document


def _grammar(what: str, path: str, inner: str, document: Any) -> str:
    """Return an error of msgspec in the API's grammar. `inner`: where it is, below the `path` of the document."""
    where = _join(path, inner)
    missing = _MISSING.match(what)
    if missing is not None:
        return f"{_join(where, missing[1])}: Required value"
    return f"{where or 'configuration'}: Invalid value: {_value_at(document, inner)}: {in_words(what)}"


def _value_at(document: Any, path: str) -> str:
    """Return the value that an error is about, shortened."""
    for key, index in _STEP.findall(path):
        try:
            document = document[int(index) if index else key]
        except (LookupError, TypeError):
            return "…"
    return as_json(document)


def _join(*parts: str) -> str:
    return ".".join(part for part in parts if part)


def default_configuration() -> SchedulerConfiguration:
    """Return what an absent file stands for."""
    return SchedulerConfiguration(profiles=[ProfileConfig(scheduler_name=DEFAULT_SCHEDULER_NAME)])


def validate(config: SchedulerConfiguration) -> list[str]:
    """Return errors of values (not of plugins), in the API's grammar."""
    errors = []
    if config.parallelism <= 0:
        errors.append(f"parallelism: Invalid value: {config.parallelism}: should be an integer value greater than zero")
    _percentage(config.percentage_of_nodes_to_score, "percentageOfNodesToScore", errors)
    if config.pod_initial_backoff_seconds <= 0:
        errors.append(
            f"podInitialBackoffSeconds: Invalid value: {config.pod_initial_backoff_seconds}: must be greater than 0"
        )
    if config.pod_max_backoff_seconds < config.pod_initial_backoff_seconds:
        errors.append(
            f"podMaxBackoffSeconds: Invalid value: {config.pod_max_backoff_seconds}: "
            "must be greater than or equal to PodInitialBackoffSeconds"
        )
    for name, field_name in zip(Limits.__struct_fields__, Limits.__struct_encode_fields__, strict=True):
        least, given = getattr(LIMITS, name), getattr(config.limits, name)
        if given < least:
            errors.append(f"limits.{field_name}: Invalid value: {given}: must be at least {least}, the default")
    if config.client_connection.burst < 0:
        errors.append(f"clientConnection.burst: Invalid value: {config.client_connection.burst}: must be non-negative")
    errors.extend(_validate_leader_election(config.leader_election))
    errors.extend(_validate_extenders(config.extenders))
    seen: set[str] = set()
    for i, profile in enumerate(config.profiles):
        where = f"profiles[{i}]"
        if not profile.scheduler_name:
            errors.append(f"{where}.schedulerName: Required value")
        elif profile.scheduler_name in seen:
            errors.append(f'{where}.schedulerName: Duplicate value: "{profile.scheduler_name}"')
        else:
            seen.add(profile.scheduler_name)
        _percentage(profile.percentage_of_nodes_to_score, f"{where}.percentageOfNodesToScore", errors)
        if profile.plugins.queue_sort != config.profiles[0].plugins.queue_sort:
            errors.append(f"{where}.plugins.queueSort: Invalid value: must be the same for all profiles")
        configured: set[str] = set()
        for j, plugin in enumerate(profile.plugin_config):
            if plugin.name in configured:
                errors.append(f'{where}.pluginConfig[{j}]: Duplicate value: "{plugin.name}"')
            configured.add(plugin.name)
    return errors


def _validate_leader_election(config: LeaderElection) -> list[str]:
    """Return errors of the durations (ValidateLeaderElectionConfiguration)."""
    errors = []
    given = {
        "leaseDuration": config.lease_duration,
        "renewDeadline": config.renew_deadline,
        "retryPeriod": config.retry_period,
    }
    parsed: dict[str, float] = {}
    for name, text in given.items():
        number = parse_duration(text)
        if number is None:
            errors.append(f'leaderElection.{name}: Invalid value: "{text}": not a duration such as 15s')
        elif config.leader_elect and number <= 0:
            errors.append(f'leaderElection.{name}: Invalid value: "{text}": must be greater than zero')
        else:
            parsed[name] = number
    for longer, shorter in (("leaseDuration", "renewDeadline"), ("renewDeadline", "retryPeriod")):
        there = config.leader_elect and longer in parsed and shorter in parsed
        if there and parsed[longer] <= parsed[shorter]:
            errors.append(f'leaderElection.{longer}: Invalid value: "{given[longer]}": must be greater than {shorter}')
    return errors


def _validate_extenders(extenders: list[Extender]) -> list[str]:
    """Return errors of the extenders (validateExtenders)."""
    errors = []
    managed: set[str] = set()
    for i, extender in enumerate(extenders):
        where = f"extenders[{i}]"
        if extender.prioritize_verb and extender.weight <= 0:
            errors.append(
                f"{where}.weight: Invalid value: {extender.weight}: must have a positive weight applied to it"
            )
        if extender.weight > MAX_WEIGHT:
            errors.append(f"{where}.weight: Invalid value: {extender.weight}: not in valid range [1-{MAX_WEIGHT}]")
        if parse_duration(extender.http_timeout) is None:
            errors.append(f'{where}.httpTimeout: Invalid value: "{extender.http_timeout}": not a duration such as 5s')
        for j, resource in enumerate(extender.managed_resources):
            invalid = f"{where}.managedResources[{j}].name: Invalid value: {as_json(resource.name)}"
            if not is_extended(resource.name):
                errors.append(f"{invalid}: is an invalid extended resource name")
            elif resource.name in managed:
                errors.append(f"{invalid}: duplicate extender managed resource name")
            managed.add(resource.name)
    binders = sum(bool(extender.bind_verb) for extender in extenders)
    if binders > 1:
        found = f'"found {binders} extenders implementing bind"'
        errors.append(f"extenders: Invalid value: {found}: only one extender can implement bind")
    return errors


def _percentage(value: int | None, path: str, errors: list[str]) -> None:
    if value is not None and not 0 <= value <= 100:
        errors.append(f"{path}: Invalid value: {value}: not in valid range [0-100]")


def parse_duration(text: str) -> float | None:
    """Return the seconds of a duration as Go writes it (`time.ParseDuration`: 1m30s, 500ms); None when it is none."""
    match = _WHOLE.fullmatch(text)
    if match is None:
        return None
    total = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(match["parts"]))
    if total > _LONGEST:
        return None
    return -total if match["sign"] == "-" else total


def duration_text(duration: float) -> str:
    """Return seconds as Go prints a duration, but never in µs: 500ms, 1m30s, 2h0m0s."""
    if duration == 0:
        return "0s"
    if duration < 1:
        return f"{_trimmed(duration * 1000)}ms"
    minutes, rest = divmod(duration, 60)
    hours, minutes = divmod(int(minutes), 60)
    found = f"{_trimmed(rest)}s"
    if hours or minutes:
        found = f"{minutes}m{found}"
    return f"{hours}h{found}" if hours else found


def _trimmed(value: float) -> str:
    return f"{value:.9f}".rstrip("0").rstrip(".")


FeatureGates = dict[str, bool] | None
"""Gate → whether it is on: feature gates of kube-scheduler that a profile switches on, in the arguments of the plugin
concerned. Only gates that are off by default in kube-scheduler can be named.
"""


def gate_is_on(gates: FeatureGates, name: str) -> bool:
    """Return whether a gate is switched on."""
    return (gates or {}).get(name, False)


def gate_errors(gates: FeatureGates, path: str, *known: str) -> list[str]:
    """Return error lines for gates that the plugin does not have. `path`: of its arguments."""
    said = f"the only gate is {known[0]}" if len(known) == 1 else f"the gates are {' and '.join(known)}"
    return [f'{path}.featureGates: Invalid value: "{name}": {said}' for name in gates or () if name not in known]

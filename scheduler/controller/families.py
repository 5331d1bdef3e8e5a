"""Every metric of `berth run`: kube-scheduler's by its names, types, labels and buckets, then our own.

Mirrors kube-scheduler `pkg/scheduler/metrics/metrics.go`. `meter` writes them; docs/metrics.md is made from this.
"""

from scheduler.telemetry.instruments import Family, exponential

_ATTEMPT = exponential(0.001, 2, 15)
_STEP = exponential(0.0001, 2, 12)

ATTEMPTS = Family(
    "scheduler_schedule_attempts_total",
    "counter",
    "Attempts to schedule a pod: scheduled, unschedulable, or error.",
    ("result", "profile"),
)
ATTEMPT_SECONDS = Family(
    "scheduler_scheduling_attempt_duration_seconds",
    "histogram",
    "One attempt, from taking the pod off the queue to the answer to its Binding.",
    ("result", "profile"),
    _ATTEMPT,
)
ALGORITHM_SECONDS = Family(
    "scheduler_scheduling_algorithm_duration_seconds",
    "histogram",
    "Filtering, scoring and, for pods that fit nowhere, preemption.",
    (),
    _ATTEMPT,
)
EVENT_SECONDS = Family(
    "scheduler_event_handling_duration_seconds",
    "histogram",
    "Applying one change of the cluster to cache and queue.",
    ("event",),
    _STEP,
)
PENDING = Family("scheduler_pending_pods", "gauge", "Pods that wait, by where they wait.", ("queue",))
QUEUED = Family("scheduler_queued_entities", "gauge", "The same; we queue pods only.", ("queue", "type"))
SLI_SECONDS = Family(
    "scheduler_pod_scheduling_sli_duration_seconds",
    "histogram",
    "From a pod's first stay in the active queue to its binding, all attempts together.",
    ("attempts",),
    exponential(0.01, 2, 20),
)
POD_ATTEMPTS = Family(
    "scheduler_pod_scheduling_attempts",
    "histogram",
    "Attempts that a pod took until it was bound.",
    (),
    exponential(1, 2, 5),
)
POINT_SECONDS = Family(
    "scheduler_framework_extension_point_duration_seconds",
    "histogram",
    "All plugins of an extension point, over all nodes. PreScore is part of Score here, assuming a part of Reserve; "
    "Permit and PostBind where a profile has such plugins, and all of them answer at once.",
    ("extension_point", "status", "profile"),
    _STEP,
)
PLUGIN_SECONDS = Family(
    "scheduler_plugin_execution_duration_seconds",
    "histogram",
    "One call of a plugin, over all nodes asked about; timed in one attempt of ten.",
    ("plugin", "extension_point", "status"),
    exponential(0.00001, 1.5, 20),
)
EVALUATIONS = Family(
    "scheduler_plugin_evaluation_total",
    "counter",
    "Attempts in which a plugin's extension point was run; an answer remembered for the pod's shape counts too.",
    ("plugin", "extension_point", "profile"),
)
INCOMING = Family(
    "scheduler_queue_incoming_pods_total",
    "counter",
    "Pods that entered a queue, by what sent them there.",
    ("queue", "event"),
)
INCOMING_ENTITIES = Family(
    "scheduler_queue_incoming_entities_total", "counter", "The same; we queue pods only.", ("queue", "event", "type")
)
PREEMPTIONS = Family("scheduler_preemption_attempts_total", "counter", "Pods for which victims were looked for.")
VICTIMS = Family("scheduler_preemption_victims", "histogram", "Victims of one preemption.", (), exponential(1, 2, 7))
AFTER_FLUSH = Family(
    "scheduler_pod_scheduled_after_flush_total",
    "counter",
    "Pods bound after they had waited for five minutes without anything waking them: a hint may be missing.",
)
PERMIT_WAIT = Family(
    "scheduler_permit_wait_duration_seconds",
    "histogram",
    "How long pods waited for Permit plugins, by what came of it.",
    ("result",),
    _ATTEMPT,
)
CACHE_SIZE = Family("scheduler_cache_size", "gauge", "Nodes, pods on nodes, and pods assumed there.", ("type",))
UNSCHEDULABLE_PODS = Family(
    "scheduler_unschedulable_pods",
    "gauge",
    "Waiting pods by who rejected them last; a pod counts once for each plugin.",
    ("plugin", "profile"),
)
LEADER = Family(
    "leader_election_master_status", "gauge", "1 while this process holds the Lease, 0 while it stands by.", ("name",)
)

DECISIONS = Family(
    "berth_decisions_total",
    "counter",
    "Attempts by whether what is known of such pods decided it (hit), or all nodes were looked at anew (miss).",
    ("memo", "profile"),
)
VERIFICATIONS = Family(
    "berth_verifications_total",
    "counter",
    "Decisions taken again on a cluster made anew (--verify): equal, differs, or given_up, which would cost too much.",
    ("result", "profile"),
)
STEPS = Family(
    "berth_attempt_steps_total",
    "counter",
    "Steps of work that a pod can make expensive, over all attempts. A step is about a microsecond of one core.",
)
SLICES = Family(
    "berth_attempt_slices_total",
    "counter",
    "Times that an attempt used up its slice of steps, and was set aside to go on between other pods.",
)
TOO_COSTLY = Family(
    "berth_attempts_too_costly_total",
    "counter",
    "Attempts that failed because they took more steps than an attempt may in all.",
)
COSTLY_NAMESPACES = Family(
    "berth_namespace_costly_steps",
    "gauge",
    "Steps that a namespace's attempts lately took beyond the free ones, of the 20 namespaces that took most.",
    ("namespace",),
)
IN_FLIGHT = Family(
    "berth_writes_in_flight",
    "gauge",
    "Writes for pods in their binding cycle, and calls of extenders, without answer.",
)
INBOX = Family("berth_inbox", "gauge", "Changes of the cluster that wait to be applied.")
EVENTS_DROPPED = Family("berth_events_dropped_total", "counter", "Events of pods that could not be written.")
STALENESS = Family(
    "berth_watch_staleness_seconds",
    "gauge",
    "Since the API server last said anything about a kind; about a minute is normal for quiet ones.",
    ("kind",),
)
WATCHED_OBJECTS = Family("berth_watch_objects", "gauge", "Objects known of a kind.", ("kind",))
WATCH_TROUBLE = Family(
    "berth_watch_trouble_total",
    "counter",
    "What went wrong with lists and watches: errors, expired, stalls, garbled, malformed, missed_deletes.",
    ("kind", "trouble"),
)
RETRIES = Family("berth_api_retries_total", "counter", "Requests sent again, by the answer before.", ("code",))
RELOADS = Family("berth_config_reloads_total", "counter", "Reloads of the configuration, by result.", ("result",))
RELOAD_OK = Family("berth_config_last_reload_successful", "gauge", "1 unless the last reload met an error.")
DIFFERENCES = Family(
    "berth_cache_differences",
    "gauge",
    "What the last comparison of the cache with a fresh list (SIGUSR2) found different.",
)

TROUBLES = ("errors", "expired", "stalls", "garbled", "malformed", "missed_deletes")

"""Every metric of `berth run`: kube-scheduler's by its names, types, labels and buckets, then our own.

Mirrors kube-scheduler `pkg/scheduler/metrics/metrics.go`. `meter` writes them; docs/reference/metrics.md is made
from this.
"""

from podberth.service.metrics import Family, exponential

_ATTEMPT = exponential(0.001, 2, 15)
_STEP = exponential(0.0001, 2, 12)

ATTEMPTS = Family(
    "scheduler_schedule_attempts_total",
    "counter",
    "Attempts to schedule a pod, by result: scheduled, unschedulable, or error.",
    ("result", "profile"),
)
ATTEMPT_SECONDS = Family(
    "scheduler_scheduling_attempt_duration_seconds",
    "histogram",
    "Seconds that an attempt took, from taking the pod off the queue to the API server's answer to its Binding.",
    ("result", "profile"),
    _ATTEMPT,
)
ALGORITHM_SECONDS = Family(
    "scheduler_scheduling_algorithm_duration_seconds",
    "histogram",
    "Seconds that filtering, scoring and (for pods that fit on no node) preemption took.",
    (),
    _ATTEMPT,
)
EVENT_SECONDS = Family(
    "scheduler_event_handling_duration_seconds",
    "histogram",
    "Seconds that applying one change of the cluster to the cache and the queue took.",
    ("event",),
    _STEP,
)
PENDING = Family("scheduler_pending_pods", "gauge", "Pending pods, by the queue that they are in.", ("queue",))
QUEUED = Family(
    "scheduler_queued_entities", "gauge", "The same as scheduler_pending_pods: only pods are queued.", ("queue", "type")
)
SLI_SECONDS = Family(
    "scheduler_pod_scheduling_sli_duration_seconds",
    "histogram",
    "Seconds from a pod's first entry into the active queue to its binding, over all its attempts.",
    ("attempts",),
    exponential(0.01, 2, 20),
)
POD_ATTEMPTS = Family(
    "scheduler_pod_scheduling_attempts",
    "histogram",
    "How many attempts it took to bind a pod.",
    (),
    exponential(1, 2, 5),
)
POINT_SECONDS = Family(
    "scheduler_framework_extension_point_duration_seconds",
    "histogram",
    "Seconds that all plugins of an extension point took for all nodes. Score includes PreScore, and Reserve includes "
    "assuming the pod. Permit and PostBind are measured only when all plugins there are synchronous.",
    ("extension_point", "status", "profile"),
    _STEP,
)
PLUGIN_SECONDS = Family(
    "scheduler_plugin_execution_duration_seconds",
    "histogram",
    "Seconds that one call of a plugin took, for all nodes of the call. One attempt in ten is timed.",
    ("plugin", "extension_point", "status"),
    exponential(0.00001, 1.5, 20),
)
EVALUATIONS = Family(
    "scheduler_plugin_evaluation_total",
    "counter",
    "Attempts that used a plugin's result at an extension point, whether it was computed or kept from an equal pod.",
    ("plugin", "extension_point", "profile"),
)
INCOMING = Family(
    "scheduler_queue_incoming_pods_total",
    "counter",
    "Pods that entered a queue, by the event that moved them there.",
    ("queue", "event"),
)
INCOMING_ENTITIES = Family(
    "scheduler_queue_incoming_entities_total",
    "counter",
    "The same as scheduler_queue_incoming_pods_total: only pods are queued.",
    ("queue", "event", "type"),
)
PREEMPTIONS = Family(
    "scheduler_preemption_attempts_total",
    "counter",
    "Attempts to find victims for a pod that fits on no node, successful or not.",
)
VICTIMS = Family(
    "scheduler_preemption_victims", "histogram", "How many victims one preemption had.", (), exponential(1, 2, 7)
)
GROUP_ATTEMPTS = Family(
    "scheduler_podgroup_schedule_attempts_total",
    "counter",
    "Attempts to schedule a pod group, by result: scheduled, unschedulable, waiting_on_preemption, or error.",
    ("result", "profile"),
)
GROUP_ATTEMPT_SECONDS = Family(
    "scheduler_podgroup_scheduling_attempt_duration_seconds",
    "histogram",
    "Seconds that an attempt to schedule a pod group took, with the turns of others between its parts.",
    ("result", "profile"),
    _ATTEMPT,
)
GROUP_ALGORITHM_SECONDS = Family(
    "scheduler_podgroup_scheduling_algorithm_duration_seconds",
    "histogram",
    "Seconds until it was decided where the pods of a group go, without the search for victims.",
    (),
    _ATTEMPT,
)
GROUP_PREEMPTIONS = Family(
    "scheduler_workload_preemption_attempts_total",
    "counter",
    "Attempts to find victims for a pod group, by result: Success (some were found) or Unschedulable.",
    ("result",),
)
GROUP_VICTIMS = Family(
    "scheduler_workload_preemption_victims",
    "histogram",
    "How many victims one preemption for a pod group had.",
    (),
    exponential(1, 2, 11),
)
DISRUPTIONS = Family(
    "scheduler_preemption_workload_disruptions",
    "histogram",
    "How many groups one preemption removes as a whole, where it removes any.",
    ("preemptor",),
    exponential(1, 2, 11),
)
VIOLATIONS = Family(
    "scheduler_preemption_pdb_violations_total",
    "counter",
    "Victims of preemption that overdraw a PodDisruptionBudget.",
    ("preemptor",),
)
AFTER_FLUSH = Family(
    "scheduler_pod_scheduled_after_flush_total",
    "counter",
    "Pods that were bound only because they are tried again after five minutes without an event for them: a plugin may "
    "lack an event or a queueing hint.",
)
PERMIT_WAIT = Family(
    "scheduler_permit_wait_duration_seconds",
    "histogram",
    "Seconds that pods waited for Permit plugins, by result.",
    ("result",),
    _ATTEMPT,
)
CACHE_SIZE = Family(
    "scheduler_cache_size", "gauge", "How many nodes, pods and assumed pods are in the cache.", ("type",)
)
UNSCHEDULABLE_PODS = Family(
    "scheduler_unschedulable_pods",
    "gauge",
    "Pending pods by the plugins that rejected them last. A pod counts once for each of its plugins.",
    ("plugin", "profile"),
)
LEADER = Family(
    "leader_election_master_status", "gauge", "1 while this process holds the Lease, 0 while it does not.", ("name",)
)

DECISIONS = Family(
    "berth_decisions_total",
    "counter",
    "Attempts, by whether results kept from equal pods were used (hit), or every node was filtered and scored (miss).",
    ("memo", "profile"),
)
VERIFICATIONS = Family(
    "berth_verifications_total",
    "counter",
    "Decisions that --verify computed a second time from the objects, by result: equal or differs.",
    ("result", "profile"),
)
COSTLY_NAMESPACES = Family(
    "berth_namespace_costly_steps",
    "gauge",
    "Steps (microseconds of a core) that a namespace was charged with lately, for the 20 namespaces with the most. One "
    "with more than 5,000 lets the pods of others go first.",
    ("namespace",),
)
KEPT_NODES = Family(
    "berth_pod_group_reserved_nodes",
    "gauge",
    "Nodes on which room is kept for a pod group that waits for long (argument reservation of GangScheduling).",
    ("profile",),
)
IN_FLIGHT = Family(
    "berth_writes_in_flight",
    "gauge",
    "Writes for pods in their binding cycle, and calls of extenders, that are not answered yet.",
)
INBOX = Family("berth_inbox", "gauge", "Changes of the cluster that were received and are not applied yet.")
BIND_FAILURES = Family(
    "berth_binding_failures_total",
    "counter",
    "Bindings that failed, by reason. taken: another scheduler bound the pod first. gone: the pod or its namespace was "
    "deleted, or the pod was replaced. withdrawn: the node changed before the Binding was sent. refused: the API "
    "server said no. not_sent: there was no connection. lost: it was sent, and was not stored.",
    ("reason",),
)
UNANSWERED = Family(
    "berth_bindings_unanswered_total",
    "counter",
    "Bindings without an answer that tells what became of them. Berth keeps the room and asks for the pod.",
)
REFUSALS = Family(
    "berth_pods_refused_total",
    "counter",
    "Pods that a kubelet did not admit after Berth had bound them, by the kubelet's reason: OutOfcpu, OutOfpods and "
    "others. Many of them mean that somebody else binds pods to the same nodes.",
    ("reason",),
)
CONFLICTS = Family(
    "berth_placement_conflicts_total",
    "counter",
    "Pods bound by Berth whose required anti-affinity (anti_affinity) or DoNotSchedule spread constraint "
    "(topology_spread) does not hold, since another scheduler placed a pod about the same time.",
    ("constraint",),
)
DEVICES_TWICE = Family(
    "berth_devices_given_twice_total",
    "counter",
    "Pods bound by Berth with a device that another scheduler gave to another claim at the same time. Only ending one "
    "of the pods mends it: the event DeviceGivenTwice names the device and both claims.",
)
STATUSES_WAITING = Family(
    "berth_statuses_waiting", "gauge", "Pods for which a condition or a nominated node waits to be written."
)
STATUSES_DROPPED = Family(
    "berth_statuses_dropped_total",
    "counter",
    "Conditions and nominated nodes that were not written, since too many wait or the pod was bound meanwhile.",
)
EVENTS_DROPPED = Family("berth_events_dropped_total", "counter", "Events about pods that could not be written.")
STALENESS = Family(
    "berth_watch_staleness_seconds",
    "gauge",
    "Seconds since the API server last said anything about the objects of a kind: an event, a bookmark, a list, or a "
    "comparison that found no difference. About 60 is normal.",
    ("kind",),
)
WATCHED_OBJECTS = Family("berth_watch_objects", "gauge", "How many objects of a kind are known.", ("kind",))
WATCH_TROUBLE = Family(
    "berth_watch_trouble_total",
    "counter",
    "Problems with lists and watches, by kind of problem: errors, expired, stalls, garbled, malformed, missed_deletes "
    "(deletions that only a list showed), lost (objects whose last event never came, found by comparison with a list), "
    "went_back (etcd was restored from a backup).",
    ("kind", "trouble"),
)
WATCH_CHECKS = Family(
    "berth_watch_checks_total",
    "counter",
    "Comparisons of what is known of a kind with a list of its objects' metadata.",
    ("kind",),
)
BLIND = Family(
    "berth_scheduling_blind",
    "gauge",
    "1 while no pod is scheduled because nodes or pods can't be followed: nothing is heard of them for too long, they "
    "may not be read, or etcd was restored from a backup and is not listed yet. /readyz says which.",
)
RETRIES = Family(
    "berth_api_retries_total",
    "counter",
    "Requests that were sent again, by the status code of the answer before.",
    ("code",),
)
RELOADS = Family("berth_config_reloads_total", "counter", "Reloads of the configuration, by result.", ("result",))
RELOAD_OK = Family(
    "berth_config_last_reload_successful",
    "gauge",
    "1 if the configuration was never reloaded or the last reload succeeded, 0 if the last reload failed.",
)
SOURCE_AGE = Family(
    "berth_plugin_source_age_seconds",
    "gauge",
    "Seconds since a source of a plugin was refreshed. Absent while its default counts.",
    ("profile", "plugin", "source"),
)
SOURCE_REFRESHES = Family(
    "berth_plugin_source_refreshes_total",
    "counter",
    "Questions to a source of a plugin, by result: success or error.",
    ("profile", "plugin", "source", "result"),
)
DIFFERENCES = Family(
    "berth_cache_differences",
    "gauge",
    "How many differences the last comparison of the cache with a fresh list found (SIGUSR2 starts one).",
)

TROUBLES = ("errors", "expired", "stalls", "garbled", "malformed", "missed_deletes", "lost", "went_back")

package main

import "k8s.io/apimachinery/pkg/runtime/schema"

// kind is one resource that is served.
type kind struct {
	schema.GroupVersionKind
	plural     string
	namespaced bool
}

// path is where its collection over all namespaces is.
func (k kind) path() string { return k.root() + "/" + k.plural }

// root is where the resources of its group and version are.
func (k kind) root() string {
	if k.Group == "" {
		return "/api/" + k.Version
	}
	return "/apis/" + k.Group + "/" + k.Version
}

func of(group, version, name, plural string, namespaced bool) kind {
	return kind{schema.GroupVersionKind{Group: group, Version: version, Kind: name}, plural, namespaced}
}

const (
	events          = "/apis/events.k8s.io/v1/events"
	priorityClasses = "/apis/scheduling.k8s.io/v1/priorityclasses"
)

// All that kube-scheduler 1.37 and Berth ask for.
var kinds = []kind{
	of("", "v1", "Pod", "pods", true),
	of("", "v1", "Node", "nodes", false),
	of("", "v1", "Namespace", "namespaces", false),
	of("", "v1", "Service", "services", true),
	of("", "v1", "ReplicationController", "replicationcontrollers", true),
	of("", "v1", "PersistentVolume", "persistentvolumes", false),
	of("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", true),
	of("", "v1", "ConfigMap", "configmaps", true),
	of("apps", "v1", "ReplicaSet", "replicasets", true),
	of("apps", "v1", "StatefulSet", "statefulsets", true),
	of("apps", "v1", "DaemonSet", "daemonsets", true),
	of("apps", "v1", "Deployment", "deployments", true),
	of("batch", "v1", "Job", "jobs", true),
	of("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", true),
	of("storage.k8s.io", "v1", "StorageClass", "storageclasses", false),
	of("storage.k8s.io", "v1", "CSINode", "csinodes", false),
	of("storage.k8s.io", "v1", "CSIDriver", "csidrivers", false),
	of("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities", true),
	of("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", false),
	of("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", true),
	of("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates", true),
	of("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", false),
	of("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", false),
	of("resource.k8s.io", "v1", "DeviceTaintRule", "devicetaintrules", false),
	of("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", false),
	of("scheduling.k8s.io", "v1beta1", "PodGroup", "podgroups", true),
	of("coordination.k8s.io", "v1", "Lease", "leases", true),
	of("events.k8s.io", "v1", "Event", "events", true),
}

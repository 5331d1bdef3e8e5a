package main

import (
	"context"
	"fmt"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

const defaultConfig = `{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}`

// cluster is what a case's plugins look at: a snapshot, listers, and a client that remembers whom it deleted.
type cluster struct {
	snapshot  *internalcache.Snapshot
	framework framework.Framework
	deleted   *deletions
	devices   *deviceManager // nil where no object is about devices
}

// newCluster makes the profile that the pod names (else the first) on these objects.
func newCluster(
	ctx context.Context, text string, objects []runtime.Object, pod *v1.Pod, queued bool, pending []*resourceapi.ResourceClaim,
) (*cluster, error) {
	profile, err := profileFor(text, pod.Spec.SchedulerName)
	if err != nil {
		return nil, err
	}
	made := &cluster{deleted: &deletions{}}
	client := &client{deleted: made.deleted}
	factory := informers.NewSharedInformerFactory(client, 0)
	nominated := nominations{}
	var nodes []*v1.Node
	var bound []*v1.Pod
	claiming := len(pod.Spec.ResourceClaims) > 0
	for _, object := range append(objects, pod) {
		informer := informerOf(factory, object)
		if informer == nil {
			return nil, fmt.Errorf("%T: no plugin looks at it", object)
		}
		if err := informer.GetIndexer().Add(object); err != nil {
			return nil, err
		}
		switch object := object.(type) {
		case *resourceapi.ResourceClaim, *resourceapi.ResourceSlice, *resourceapi.DeviceClass, *resourceapi.DeviceTaintRule:
			claiming = true
		case *v1.Node:
			nodes = append(nodes, object)
		case *v1.Pod:
			if object == pod {
				continue
			}
			if object.Spec.NodeName != "" {
				bound = append(bound, object)
			} else if err := nominated.add(object, queued); err != nil {
				return nil, err
			}
		}
	}
	// The cache's own snapshots leave out what is bound to a node that is gone (UpdateSnapshot in backend/cache).
	bound = slices.DeleteFunc(bound, func(pod *v1.Pod) bool {
		return !slices.ContainsFunc(nodes, func(node *v1.Node) bool { return node.Name == pod.Spec.NodeName })
	})
	made.snapshot = internalcache.NewSnapshot(bound, nodes)
	shared, err := sharedParts(ctx)
	if err != nil {
		return nil, err
	}
	claims := shared.claims
	if claiming {
		made.devices, err = newDeviceManager(ctx, factory, objects, pending)
		if err != nil {
			return nil, err
		}
		claims = made.devices
	}
	made.framework, err = frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), profile,
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithEventRecorder(&events.FakeRecorder{}),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithMetricsRecorder(shared.recorder),
		frameworkruntime.WithMutableSnapshotLister(made.snapshot),
		frameworkruntime.WithParallelism(1), // cases run side by side
		frameworkruntime.WithPodNominator(nominated),
		frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
		frameworkruntime.WithSharedDRAManager(claims),
		frameworkruntime.WithSnapshotSharedLister(made.snapshot),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
	)
	return made, err
}

func profileFor(text, name string) (*config.KubeSchedulerProfile, error) {
	read, err := profilesOf(text)
	if err != nil {
		return nil, err
	}
	for i := range read.Profiles {
		if read.Profiles[i].SchedulerName == name {
			return &read.Profiles[i], nil
		}
	}
	return &read.Profiles[0], nil
}

func profilesOf(text string) (*config.KubeSchedulerConfiguration, error) {
	if text == "" {
		text = defaultConfig
	}
	decoded, _, err := scheme.Codecs.UniversalDecoder().Decode([]byte(text), nil, nil)
	if err != nil {
		return nil, err
	}
	read, ok := decoded.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("config: %T is no KubeSchedulerConfiguration", decoded)
	}
	return read, nil
}

// informerOf gives the informer of an object's kind. None of them is started: their stores are filled by hand.
func informerOf(factory informers.SharedInformerFactory, object runtime.Object) cache.SharedIndexInformer {
	switch object.(type) {
	case *v1.Node:
		return factory.Core().V1().Nodes().Informer()
	case *v1.Pod:
		return factory.Core().V1().Pods().Informer()
	case *v1.Namespace:
		return factory.Core().V1().Namespaces().Informer()
	case *v1.Service:
		return factory.Core().V1().Services().Informer()
	case *v1.ReplicationController:
		return factory.Core().V1().ReplicationControllers().Informer()
	case *appsv1.ReplicaSet:
		return factory.Apps().V1().ReplicaSets().Informer()
	case *appsv1.StatefulSet:
		return factory.Apps().V1().StatefulSets().Informer()
	case *v1.PersistentVolume:
		return factory.Core().V1().PersistentVolumes().Informer()
	case *v1.PersistentVolumeClaim:
		return factory.Core().V1().PersistentVolumeClaims().Informer()
	case *storagev1.StorageClass:
		return factory.Storage().V1().StorageClasses().Informer()
	case *storagev1.CSINode:
		return factory.Storage().V1().CSINodes().Informer()
	case *storagev1.CSIDriver:
		return factory.Storage().V1().CSIDrivers().Informer()
	case *storagev1.CSIStorageCapacity:
		return factory.Storage().V1().CSIStorageCapacities().Informer()
	case *storagev1.VolumeAttachment:
		return factory.Storage().V1().VolumeAttachments().Informer()
	case *policyv1.PodDisruptionBudget:
		return factory.Policy().V1().PodDisruptionBudgets().Informer()
	case *resourceapi.ResourceClaim:
		return factory.Resource().V1().ResourceClaims().Informer()
	case *resourceapi.ResourceSlice:
		return factory.Resource().V1().ResourceSlices().Informer()
	case *resourceapi.DeviceClass:
		return factory.Resource().V1().DeviceClasses().Informer()
	case *resourceapi.DeviceTaintRule:
		return factory.Resource().V1().DeviceTaintRules().Informer()
	}
	return nil
}

// shared is what all cases may share: nothing of it depends on a case's objects.
type shared struct {
	recorder *metrics.MetricAsyncRecorder
	claims   fwk.SharedDRAManager
}

// sharedParts makes them at first need. In a case without devices, DynamicResources is there and has nothing to do.
var sharedParts = func() func(context.Context) (*shared, error) {
	var once sync.Once
	var made shared
	var failure error
	return func(ctx context.Context) (*shared, error) {
		once.Do(func() {
			logger := klog.FromContext(ctx)
			factory := informers.NewSharedInformerFactory(&client{}, 0)
			slices, err := tracker.StartTracker(ctx, tracker.Options{SliceInformer: factory.Resource().V1().ResourceSlices()})
			if err != nil {
				failure = err
				return
			}
			claims := assumecache.NewAssumeCache(
				logger, factory.Resource().V1().ResourceClaims().Informer(), "ResourceClaim", "", nil)
			made.claims = dynamicresources.NewDRAManager(ctx, claims, slices, factory)
			made.recorder = metrics.NewMetricsAsyncRecorder(1000, 1<<40, ctx.Done())
		})
		return &made, failure
	}
}()

// nominations are the pods that wait with a nominatedNodeName, by node.
type nominations map[string][]fwk.PodInfo

// add nominates a pod. One that nobody queued is known by name only (nominatedPodToInfo in backend/queue): it counts
// with priority 0, without labels and requests.
func (n nominations) add(pod *v1.Pod, queued bool) error {
	node := pod.Status.NominatedNodeName
	if node == "" {
		return nil
	}
	if !queued {
		pod = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID}}
	}
	info, err := framework.NewPodInfo(pod)
	if err == nil {
		n[node] = append(n[node], info)
	}
	return err
}

func (n nominations) NominatedPodsForNode(node string) []fwk.PodInfo { return n[node] }

func (n nominations) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}

func (n nominations) DeleteNominatedPodIfExists(*v1.Pod) {}

func (n nominations) UpdateNominatedPod(klog.Logger, *v1.Pod, fwk.PodInfo) {}

// client has the few calls that preemption makes; any other is a nil pointer and shows itself.
type client struct {
	kubernetes.Interface
	deleted *deletions
}

type coreClient struct {
	corev1.CoreV1Interface
	deleted *deletions
}

type podClient struct {
	corev1.PodInterface
	namespace string
	deleted   *deletions
}

func (c *client) CoreV1() corev1.CoreV1Interface { return coreClient{deleted: c.deleted} }

func (c coreClient) Pods(namespace string) corev1.PodInterface {
	return podClient{namespace: namespace, deleted: c.deleted}
}

func (c podClient) Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*v1.Pod, error) {
	return &v1.Pod{}, nil
}

func (c podClient) Delete(_ context.Context, name string, _ metav1.DeleteOptions) error {
	c.deleted.add(c.namespace + "/" + name)
	return nil
}

// deletions are the victims of one preemption.
type deletions struct {
	lock sync.Mutex
	keys []string
}

func (d *deletions) add(key string) {
	d.lock.Lock()
	defer d.lock.Unlock()
	d.keys = append(d.keys, key)
}

// take gives the victims so far and forgets them.
func (d *deletions) take() []string {
	d.lock.Lock()
	defer d.lock.Unlock()
	keys := d.keys
	d.keys = nil
	return keys
}

package main

import (
	"context"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	resourcev1 "k8s.io/client-go/kubernetes/typed/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// device is one device that a claim would be given, as vectors have it.
type device struct {
	Request          string            `json:"request"`
	Driver           string            `json:"driver"`
	Pool             string            `json:"pool"`
	Device           string            `json:"device"`
	AdminAccess      bool              `json:"adminAccess,omitempty"`
	Shared           bool              `json:"shared,omitempty"`
	ConsumedCapacity map[string]string `json:"consumedCapacity,omitempty"`
}

// allocations are the devices of each claim, by node.
type allocations map[string]map[string][]device

// document is what PreBind would write: what a claim is given, and of one that is made for extended resources, what it
// asks for: name, class and count of each request.
type document struct {
	Allocation *resourceapi.AllocationResult `json:"allocation"`
	Requests   [][]any                       `json:"requests,omitempty"`
}

// documents are those of each claim, by node.
type documents map[string]map[string]document

// deviceManager is kube-scheduler's own, fed by hand as its informers would feed it. It remembers what Reserve signals.
type deviceManager struct {
	fwk.SharedDRAManager
	claims *claimTracker
}

// ResourceClaims gives the tracker that remembers.
func (m *deviceManager) ResourceClaims() fwk.ResourceClaimTracker { return m.claims }

// claimTracker remembers the claims for which an allocation was signaled since it was last asked.
type claimTracker struct {
	fwk.ResourceClaimTracker
	signaled []*resourceapi.ResourceClaim
}

// SignalClaimPendingAllocation is what Reserve calls for each claim that it gives something.
func (t *claimTracker) SignalClaimPendingAllocation(uid types.UID, claim *resourceapi.ResourceClaim) error {
	t.signaled = append(t.signaled, claim)
	return t.ResourceClaimTracker.SignalClaimPendingAllocation(uid, claim)
}

// take takes back all that was signaled.
func (t *claimTracker) take() []*resourceapi.ResourceClaim {
	taken := t.signaled
	t.signaled = nil
	for _, claim := range taken {
		t.MaybeRemoveClaimPendingAllocation(claim.UID, true)
	}
	return taken
}

// newDeviceManager follows the claims, slices, classes and taint rules among the objects, which are in the factory's
// stores already. `pending`: what claims are about to be given by pods that are being bound.
func newDeviceManager(
	ctx context.Context, factory informers.SharedInformerFactory, objects []runtime.Object, pending []*resourceapi.ResourceClaim,
) (*deviceManager, error) {
	api := factory.Resource().V1()
	sliceFeed, ruleFeed := &feed[*resourceapi.ResourceSlice]{}, &feed[*resourceapi.DeviceTaintRule]{}
	sliceFeed.TypedSharedIndexInformer = api.ResourceSlices().TypedInformer()
	ruleFeed.TypedSharedIndexInformer = api.DeviceTaintRules().TypedInformer()
	patched, err := tracker.StartTracker(ctx, tracker.Options{
		EnableDeviceTaintRules:   true,
		EnableConsumableCapacity: true,
		SliceInformer:            sliceSource{api.ResourceSlices(), sliceFeed},
		TaintInformer:            ruleSource{api.DeviceTaintRules(), ruleFeed},
	})
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, patched.Stop)
	claims := assumecache.NewAssumeCache(klog.FromContext(ctx), nil, "ResourceClaim", "", nil)
	manager := dynamicresources.NewDRAManager(ctx, claims, patched, factory)
	classes := manager.DeviceClassResolver().(*extendedresourcecache.ExtendedResourceCache)
	var served []*resourceapi.DeviceClass
	for _, object := range objects {
		switch object := object.(type) {
		case *resourceapi.ResourceClaim:
			assumecache.AddTestObject(claims, object)
		case *resourceapi.ResourceSlice:
			sliceFeed.add(object)
		case *resourceapi.DeviceTaintRule:
			ruleFeed.add(object)
		case *resourceapi.DeviceClass:
			served = append(served, object)
		}
	}
	// A class for whose resource a newer one is known already would not even be found by its own name: a fault that
	// depends on the order in which classes are seen.
	slices.SortFunc(served, func(a, b *resourceapi.DeviceClass) int {
		if order := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); order != 0 {
			return order
		}
		return strings.Compare(b.Name, a.Name)
	})
	for _, class := range served {
		classes.OnAdd(class, true)
	}
	made := &deviceManager{manager, &claimTracker{ResourceClaimTracker: manager.ResourceClaims()}}
	for _, claim := range pending {
		if err := manager.ResourceClaims().SignalClaimPendingAllocation(claim.UID, claim); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// feed is an informer that is not started: it keeps the handler that it is given, so that it can be told of objects.
type feed[T cache.Object] struct {
	cache.TypedSharedIndexInformer[T]
	handler cache.TypedResourceEventHandler[T]
}

func (f *feed[T]) AddTypedEventHandler(
	handler cache.TypedResourceEventHandler[T], _ ...cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	f.handler = handler
	return synced{}, nil
}

func (f *feed[T]) RemoveEventHandler(cache.ResourceEventHandlerRegistration) error { return nil }

func (f *feed[T]) add(object T) { f.handler.OnAdd(object, true) }

type sliceSource struct {
	resourceinformers.TypedResourceSliceInformer
	feed *feed[*resourceapi.ResourceSlice]
}

func (s sliceSource) TypedInformer() resourceinformers.ResourceSliceIndexInformer { return s.feed }

type ruleSource struct {
	resourceinformers.TypedDeviceTaintRuleInformer
	feed *feed[*resourceapi.DeviceTaintRule]
}

func (s ruleSource) TypedInformer() resourceinformers.DeviceTaintRuleIndexInformer { return s.feed }

// synced is a registration whose objects have all been told.
type synced struct{}

var closed = func() chan struct{} {
	made := make(chan struct{})
	close(made)
	return made
}()

func (synced) HasSynced() bool                       { return true }
func (s synced) HasSyncedChecker() cache.DoneChecker { return s }
func (synced) Name() string                          { return "objects of a case" }
func (synced) Done() <-chan struct{}                 { return closed }

// allocate says what Reserve would give the pod's claims on each of the nodes, with what they have already, and what
// PreBind would write.
func (c *cluster) allocate(ctx context.Context, got *want, state fwk.CycleState, pod *v1.Pod) error {
	plugin := c.reserves()
	if c.devices == nil || plugin == nil || !c.concerns(pod) {
		return nil
	}
	got.Allocations, got.Written = allocations{}, documents{}
	for _, node := range got.Feasible {
		status := plugin.Reserve(ctx, state, pod, node)
		signaled := c.devices.claims.take()
		if !status.IsSuccess() {
			return status.AsError()
		}
		written := map[string]document{}
		given := map[string][]device{}
		for _, use := range pod.Spec.ResourceClaims {
			if claim := c.claimOf(pod, use); claim != nil && claim.Status.Allocation != nil {
				given[claim.Name] = devicesOf(claim)
			}
		}
		for _, claim := range signaled {
			if claim.GenerateName != "" && len(claim.Spec.Devices.Requests) == 0 {
				continue // a claim for nothing, on a node that has all of the resources by itself
			}
			name := claim.Name
			if claim.GenerateName != "" {
				name = "(" + claim.GenerateName + ")"
			}
			given[name] = devicesOf(claim)
			written[name] = documentOf(claim)
		}
		got.Allocations[node] = given
		if len(written) > 0 {
			got.Written[node] = written
		}
	}
	return nil
}

func documentOf(claim *resourceapi.ResourceClaim) document {
	made := document{Allocation: claim.Status.Allocation}
	if claim.GenerateName != "" {
		for _, request := range claim.Spec.Devices.Requests {
			made.Requests = append(made.Requests, []any{request.Name, request.Exactly.DeviceClassName, request.Exactly.Count})
		}
	}
	return made
}

// concerns says whether the pod has to do with devices at all: it has a claim, or a class serves what it asks for.
func (c *cluster) concerns(pod *v1.Pod) bool {
	for _, use := range pod.Spec.ResourceClaims {
		if c.claimOf(pod, use) != nil {
			return true
		}
	}
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for name, amount := range container.Resources.Requests {
			if !amount.IsZero() && c.devices.DeviceClassResolver().GetDeviceClass(name) != nil {
				return true
			}
		}
	}
	return false
}

func (c *cluster) claimOf(pod *v1.Pod, use v1.PodResourceClaim) *resourceapi.ResourceClaim {
	name := use.ResourceClaimName
	for _, made := range pod.Status.ResourceClaimStatuses {
		if made.Name == use.Name && name == nil {
			name = made.ResourceClaimName
		}
	}
	if name == nil {
		return nil
	}
	claim, err := c.devices.ResourceClaims().Get(pod.Namespace, *name)
	if err != nil {
		return nil
	}
	return claim
}

// reserves is the plugin that reserves devices, if the profile has it.
func (c *cluster) reserves() fwk.ReservePlugin {
	for _, plugin := range c.framework.EnqueueExtensions() {
		if plugin.Name() == dynamicresources.Name {
			found, _ := plugin.(fwk.ReservePlugin)
			return found
		}
	}
	return nil
}

func devicesOf(claim *resourceapi.ResourceClaim) []device {
	found := []device{}
	for _, result := range claim.Status.Allocation.Devices.Results {
		one := device{
			Request: result.Request, Driver: result.Driver, Pool: result.Pool, Device: result.Device,
			AdminAccess: result.AdminAccess != nil && *result.AdminAccess, Shared: result.ShareID != nil,
		}
		for name, amount := range result.ConsumedCapacity {
			if one.ConsumedCapacity == nil {
				one.ConsumedCapacity = map[string]string{}
			}
			one.ConsumedCapacity[string(name)] = amount.String()
		}
		found = append(found, one)
	}
	slices.SortStableFunc(found, func(a, b device) int {
		if order := strings.Compare(a.Request, b.Request); order != 0 {
			return order
		}
		if order := strings.Compare(a.Pool, b.Pool); order != 0 {
			return order
		}
		return strings.Compare(a.Device, b.Device)
	})
	return found
}

// claimClient has the calls that free a claim. What they do is said in PostFilter's message.
type claimClient struct {
	resourcev1.ResourceClaimInterface
}

type deviceClient struct {
	resourcev1.ResourceV1Interface
}

func (c *client) ResourceV1() resourcev1.ResourceV1Interface { return deviceClient{} }

func (deviceClient) ResourceClaims(string) resourcev1.ResourceClaimInterface { return claimClient{} }

func (claimClient) Update(
	_ context.Context, claim *resourceapi.ResourceClaim, _ metav1.UpdateOptions,
) (*resourceapi.ResourceClaim, error) {
	return claim, nil
}

func (claimClient) UpdateStatus(
	_ context.Context, claim *resourceapi.ResourceClaim, _ metav1.UpdateOptions,
) (*resourceapi.ResourceClaim, error) {
	return claim, nil
}

func (claimClient) Delete(context.Context, string, metav1.DeleteOptions) error { return nil }

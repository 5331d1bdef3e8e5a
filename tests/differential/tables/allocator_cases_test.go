// Package berthcases writes down what upstream's own table of allocator tests asks, and what the allocators answer.
//
// It is compiled inside a copy of k8s.io/dynamic-resource-allocation, as only packages of that module may use the table.
package berthcases

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/dynamic-resource-allocation/structured/internal"
	"k8s.io/dynamic-resource-allocation/structured/internal/allocatortesting"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// outputVariable names the file to which a line is written for each case.
const outputVariable = "BERTH_CASES"

// asked is one case of the table. Gates are those that it says it needs.
type asked struct {
	Name      string                                      `json:"name"`
	Gates     []string                                    `json:"gates"`
	Node      *v1.Node                                    `json:"node"`
	Classes   []*resourceapi.DeviceClass                  `json:"classes"`
	Slices    []*resourceapi.ResourceSlice                `json:"slices"`
	Claims    []*resourceapi.ResourceClaim                `json:"claims"`
	Allocated []resourceapi.DeviceRequestAllocationResult `json:"allocated"`
	Results   []resourceapi.AllocationResult              `json:"results"`
	Error     string                                      `json:"error,omitempty"`
}

// recorder is an allocator that writes down what it is asked, and what it answers with the case's own gates.
type recorder struct {
	internal.Allocator
	asked asked
	write func(asked)
}

// Allocate answers as the real one does.
func (r *recorder) Allocate(
	ctx context.Context, node *v1.Node, claims []*resourceapi.ResourceClaim,
) ([]resourceapi.AllocationResult, error) {
	results, err := r.Allocator.Allocate(ctx, node, claims)
	one := r.asked
	one.Node, one.Claims = node, claims
	for _, result := range results {
		one.Results = append(one.Results, *result.DeepCopy())
	}
	if err != nil {
		one.Error = err.Error()
	}
	r.write(one)
	return results, err
}

// GetStats passes on what some cases look at.
func (r *recorder) GetStats() internal.Stats {
	if counting, ok := r.Allocator.(internal.AllocatorExtended); ok {
		return counting.GetStats()
	}
	return internal.Stats{}
}

// allocated says who has what, as results of claims. Capacity of which no share is known gets a share of its own.
func allocated(state structured.AllocatedState) []resourceapi.DeviceRequestAllocationResult {
	found := []resourceapi.DeviceRequestAllocationResult{}
	one := func(id structured.DeviceID) resourceapi.DeviceRequestAllocationResult {
		return resourceapi.DeviceRequestAllocationResult{
			Request: "held", Driver: id.Driver.String(), Pool: id.Pool.String(), Device: id.Device.String(),
		}
	}
	for id := range state.AllocatedDevices {
		found = append(found, one(id))
	}
	counted := sets.New[structured.DeviceID]()
	share := func(id structured.DeviceID) {
		if counted.Has(id) {
			return
		}
		counted.Insert(id)
		held := one(id)
		held.ShareID = internal.GenerateShareID()
		for name, amount := range state.AggregatedCapacity[id] {
			if held.ConsumedCapacity == nil {
				held.ConsumedCapacity = map[resourceapi.QualifiedName]apiresource.Quantity{}
			}
			held.ConsumedCapacity[name] = amount.DeepCopy()
		}
		found = append(found, held)
	}
	for id := range state.AllocatedSharedDeviceIDs {
		share(id.GetDeviceID())
	}
	for _, id := range slices.Collect(maps.Keys(state.AggregatedCapacity)) {
		share(id)
	}
	slices.SortFunc(found, func(a, b resourceapi.DeviceRequestAllocationResult) int {
		return strings.Compare(a.Driver+"/"+a.Pool+"/"+a.Device, b.Driver+"/"+b.Pool+"/"+b.Device)
	})
	return found
}

// caseName is that of the test whose logger a context has.
func caseName(ctx context.Context) string {
	under, ok := klog.FromContext(ctx).GetSink().(ktesting.Underlier)
	if !ok {
		return ""
	}
	test, ok := under.GetUnderlying().(interface{ Name() string })
	if !ok {
		return ""
	}
	_, name, _ := strings.Cut(test.Name(), "/")
	return name
}

func TestRecord(t *testing.T) {
	file, err := os.Create(os.Getenv(outputVariable))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var lock sync.Mutex
	lines := json.NewEncoder(file)
	write := func(one asked) {
		lock.Lock()
		defer lock.Unlock()
		if err := lines.Encode(one); err != nil {
			t.Error(err)
		}
	}
	recording := func(
		ctx context.Context, features structured.Features, state structured.AllocatedState,
		classes structured.DeviceClassLister, resourceSlices []*resourceapi.ResourceSlice, cache *cel.Cache,
	) (internal.Allocator, error) {
		made, err := structured.NewAllocator(ctx, features, state, classes, resourceSlices, cache)
		if err != nil {
			return nil, err
		}
		one := asked{
			Name: caseName(ctx), Gates: sets.List(features.Set()), Slices: resourceSlices, Allocated: allocated(state),
		}
		if one.Classes, err = classes.List(); err != nil {
			return nil, err
		}
		return &recorder{made.(internal.Allocator), one, write}, nil
	}
	allocatortesting.TestAllocator(t, internal.FeaturesAll, recording)
	allocatortesting.TestLexicographicalAllocator(t, internal.FeaturesAll, recording)
}

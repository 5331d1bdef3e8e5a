package main

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"

	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourceclient "k8s.io/client-go/kubernetes/typed/resource/v1"
)

// Claims of a case of groups: what the scheduler writes of them is refused if it goes by an older version, as by the API
// server, and is shown to its informers when its binding cycles have ended.

// Versions of what is written begin here, above those of the objects of a case.
const firstWrite = 1 << 20

type groupResources struct {
	resourceclient.ResourceV1Interface
	to *groupClient
}

type groupClaims struct {
	resourceclient.ResourceClaimInterface
	namespace string
	to        *groupClient
}

func (c *groupClient) ResourceV1() resourceclient.ResourceV1Interface { return groupResources{to: c} }

func (c groupResources) ResourceClaims(namespace string) resourceclient.ResourceClaimInterface {
	return groupClaims{namespace: namespace, to: c.to}
}

// keep stores a claim of the case.
func (c *groupClient) keep(claim *resourceapi.ResourceClaim) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.claims[claim.Name] = claim.DeepCopy()
}

func (c *groupClient) takeClaims() []*resourceapi.ResourceClaim {
	c.lock.Lock()
	defer c.lock.Unlock()
	found := c.freshClaims
	c.freshClaims = nil
	return found
}

func (g groupClaims) Get(_ context.Context, name string, _ metav1.GetOptions) (*resourceapi.ResourceClaim, error) {
	g.to.lock.Lock()
	defer g.to.lock.Unlock()
	claim, ok := g.to.claims[name]
	if !ok {
		return nil, apierrors.NewNotFound(resourceapi.Resource("resourceclaims"), name)
	}
	return claim.DeepCopy(), nil
}

func (g groupClaims) Update(
	_ context.Context, claim *resourceapi.ResourceClaim, _ metav1.UpdateOptions,
) (*resourceapi.ResourceClaim, error) {
	return g.write(claim, func(there *resourceapi.ResourceClaim) { there.Finalizers = slices.Clone(claim.Finalizers) })
}

func (g groupClaims) UpdateStatus(
	_ context.Context, claim *resourceapi.ResourceClaim, _ metav1.UpdateOptions,
) (*resourceapi.ResourceClaim, error) {
	return g.write(claim, func(there *resourceapi.ResourceClaim) { there.Status = *claim.Status.DeepCopy() })
}

// Patch takes entries out of reservedFor by their UIDs, which is the only patch that the scheduler sends.
func (g groupClaims) Patch(
	_ context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string,
) (*resourceapi.ResourceClaim, error) {
	var patch struct {
		Status struct {
			ReservedFor []struct {
				UID types.UID `json:"uid"`
			} `json:"reservedFor"`
		} `json:"status"`
	}
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, err
	}
	there := func(uid types.UID) bool {
		for _, one := range patch.Status.ReservedFor {
			if one.UID == uid {
				return true
			}
		}
		return false
	}
	like := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return g.write(like, func(claim *resourceapi.ResourceClaim) {
		claim.Status.ReservedFor = slices.DeleteFunc(claim.Status.ReservedFor, func(one resourceapi.ResourceClaimConsumerReference) bool {
			return there(one.UID)
		})
	})
}

func (g groupClaims) write(
	claim *resourceapi.ResourceClaim, change func(*resourceapi.ResourceClaim),
) (*resourceapi.ResourceClaim, error) {
	g.to.lock.Lock()
	defer g.to.lock.Unlock()
	before, ok := g.to.claims[claim.Name]
	if !ok {
		return nil, apierrors.NewNotFound(resourceapi.Resource("resourceclaims"), claim.Name)
	}
	if claim.ResourceVersion != "" && claim.ResourceVersion != before.ResourceVersion {
		return nil, apierrors.NewConflict(resourceapi.Resource("resourceclaims"), claim.Name, nil)
	}
	after := before.DeepCopy()
	change(after)
	if apiequality.Semantic.DeepEqual(before, after) {
		return after, nil // as the API server, which stores nothing then
	}
	g.to.writes++
	after.ResourceVersion = strconv.Itoa(firstWrite + g.to.writes)
	g.to.claims[claim.Name] = after
	g.to.freshClaims = append(g.to.freshClaims, after.DeepCopy())
	return after.DeepCopy(), nil
}

// tellClaims shows what was written of claims to those who follow them.
func (w *groupWorld) tellClaims() error {
	for _, claim := range w.client.takeClaims() {
		informer, err := w.hand.of(claim)
		if err != nil {
			return err
		}
		before, _, err := informer.GetIndexer().Get(claim)
		if err != nil {
			return err
		}
		if err := informer.GetIndexer().Update(claim); err != nil {
			return err
		}
		for _, handler := range informer.handlers {
			handler.OnUpdate(before, claim)
		}
	}
	return nil
}

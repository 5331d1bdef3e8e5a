package main

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	"k8s.io/kubernetes/pkg/apis/resource"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	resourcevalidation "k8s.io/kubernetes/pkg/apis/resource/validation"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
)

// repeats is how often a preemption is run to see which of several equal nodes may be picked.
const repeats = 12

// question is one line of the vectors, and three fields that only the oracle knows: how often to preempt; that nominated
// pods are `queued`, as in a kube-scheduler that has seen them, and counted whole; and the claims as they will be when
// pods that are being bound have been, by UID of claims among the objects.
type question struct {
	ID       string            `json:"id"`
	Config   string            `json:"config,omitempty"`
	Objects  []json.RawMessage `json:"objects"`
	Pod      json.RawMessage   `json:"pod"`
	Repeat   int               `json:"repeat,omitempty"`
	Nominees string            `json:"nominees,omitempty"`
	Pending  []json.RawMessage `json:"pending,omitempty"`
}

type vector struct {
	question
	Want *want `json:"want"`
}

type answered struct {
	ID   string `json:"id"`
	Want *want  `json:"want"`
}

type unanswered struct {
	ID    string `json:"id"`
	Error string `json:"error"`
}

// answerCase never panics: a case that breaks a plugin is an answer too.
func answerCase(ctx context.Context, line []byte, defaults bool) (answer any) {
	var asked question
	defer func() {
		if cause := recover(); cause != nil {
			answer = unanswered{asked.ID, fmt.Sprintf("panic: %v\n%s", cause, debug.Stack())}
		}
	}()
	if err := json.Unmarshal(line, &asked); err != nil {
		return unanswered{asked.ID, err.Error()}
	}
	objects, pod, err := asked.read(defaults)
	if err != nil {
		return unanswered{asked.ID, err.Error()}
	}
	pending, err := asked.pending(defaults)
	if err != nil {
		return unanswered{asked.ID, err.Error()}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cluster, err := newCluster(ctx, asked.Config, objects, pod, asked.Nominees == "queued", pending)
	if err != nil {
		return unanswered{asked.ID, err.Error()}
	}
	if asked.Repeat == 0 {
		asked.Repeat = repeats
	}
	got, err := cluster.decide(ctx, pod, asked.Repeat)
	if err != nil {
		return unanswered{asked.ID, err.Error()}
	}
	if defaults {
		asked.Repeat = 0
		return vector{asked, got}
	}
	return answered{asked.ID, got}
}

// read decodes the objects; with defaults it also writes them back into the question as they were then.
func (q *question) read(defaults bool) ([]runtime.Object, *v1.Pod, error) {
	objects := make([]runtime.Object, len(q.Objects))
	for i := range q.Objects {
		object, err := readObject(&q.Objects[i], defaults)
		if err != nil {
			return nil, nil, err
		}
		objects[i] = object
	}
	object, err := readObject(&q.Pod, defaults)
	if err != nil {
		return nil, nil, err
	}
	pod, ok := object.(*v1.Pod)
	if !ok {
		return nil, nil, fmt.Errorf("pod: %T is no Pod", object)
	}
	return objects, pod, nil
}

// pending decodes the claims that are about to be given something.
func (q *question) pending(defaults bool) ([]*resourceapi.ResourceClaim, error) {
	claims := make([]*resourceapi.ResourceClaim, len(q.Pending))
	for i := range q.Pending {
		object, err := readObject(&q.Pending[i], defaults)
		if err != nil {
			return nil, err
		}
		claim, ok := object.(*resourceapi.ResourceClaim)
		if !ok || claim.Status.Allocation == nil {
			return nil, fmt.Errorf("pending: %T is no ResourceClaim with an allocation", object)
		}
		claims[i] = claim
	}
	return claims, nil
}

func readObject(raw *json.RawMessage, defaults bool) (runtime.Object, error) {
	object, _, err := legacyscheme.Codecs.UniversalDeserializer().Decode(*raw, nil, nil)
	if err != nil || !defaults {
		return object, err
	}
	legacyscheme.Scheme.Default(object)
	if found := invalid(object); len(found) > 0 {
		return nil, fmt.Errorf("invalid: %w: %s", found.ToAggregate(), *raw)
	}
	*raw, err = json.Marshal(object)
	return object, err
}

// invalid says what the API server would refuse in a pod, a node, or what is about devices.
func invalid(object runtime.Object) field.ErrorList {
	switch object := object.(type) {
	case *v1.Pod:
		var pod core.Pod
		if err := legacyscheme.Scheme.Convert(object, &pod, nil); err != nil {
			return field.ErrorList{field.InternalError(nil, err)}
		}
		options := podutil.GetValidationOptionsFromPodSpecAndMeta(&pod.Spec, nil, &pod.ObjectMeta, nil)
		return validation.ValidatePodCreate(&pod, options)
	case *v1.Node:
		var node core.Node
		if err := legacyscheme.Scheme.Convert(object, &node, nil); err != nil {
			return field.ErrorList{field.InternalError(nil, err)}
		}
		return validation.ValidateNode(&node)
	case *resourceapi.ResourceClaim:
		var claim resource.ResourceClaim
		if err := legacyscheme.Scheme.Convert(object, &claim, nil); err != nil {
			return field.ErrorList{field.InternalError(nil, err)}
		}
		found := resourcevalidation.ValidateResourceClaim(&claim)
		claim.ResourceVersion = "1" // the status is written by updates
		before := claim.DeepCopy()
		before.Status = resource.ResourceClaimStatus{}
		before.DeletionTimestamp = nil
		claim.DeletionTimestamp = nil
		return append(found, resourcevalidation.ValidateResourceClaimStatusUpdate(&claim, before)...)
	case *resourceapi.ResourceSlice:
		var slice resource.ResourceSlice
		if err := legacyscheme.Scheme.Convert(object, &slice, nil); err != nil {
			return field.ErrorList{field.InternalError(nil, err)}
		}
		return resourcevalidation.ValidateResourceSlice(&slice)
	case *resourceapi.DeviceClass:
		var class resource.DeviceClass
		if err := legacyscheme.Scheme.Convert(object, &class, nil); err != nil {
			return field.ErrorList{field.InternalError(nil, err)}
		}
		return resourcevalidation.ValidateDeviceClass(&class)
	case *resourceapi.DeviceTaintRule:
		var rule resource.DeviceTaintRule
		if err := legacyscheme.Scheme.Convert(object, &rule, nil); err != nil {
			return field.ErrorList{field.InternalError(nil, err)}
		}
		return resourcevalidation.ValidateDeviceTaintRule(&rule)
	}
	return nil
}

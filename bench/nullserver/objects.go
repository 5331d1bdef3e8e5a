package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	// These register the kinds and their defaults.
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/events/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
)

// typed is a Kubernetes object of an external version.
type typed interface {
	runtime.Object
	metav1.Object
}

// encoded is an object's bytes in one media type, made when they are first asked for.
type encoded struct {
	once  sync.Once
	bytes []byte
}

var (
	decoder = legacyscheme.Codecs.UniversalDeserializer()
	wrapped = protobuf.NewSerializer(legacyscheme.Scheme, legacyscheme.Scheme)
	bare    = protobuf.NewRawSerializer(legacyscheme.Scheme, legacyscheme.Scheme)
)

// asJSON is the object as JSON.
func (o *object) asJSON() []byte {
	o.json.once.Do(func() {
		found, err := json.Marshal(o.typed)
		if err != nil {
			panic(err)
		}
		o.json.bytes = found
	})
	return o.json.bytes
}

// asProtobuf is the object in Kubernetes' envelope.
func (o *object) asProtobuf() []byte {
	o.protobuf.once.Do(func() { o.protobuf.bytes = enveloped(o.typed) })
	return o.protobuf.bytes
}

// message is the object without the envelope, as it stands in a list.
func (o *object) message() []byte {
	var found bytes.Buffer
	if err := bare.Encode(o.typed, &found); err != nil {
		panic(err)
	}
	return found.Bytes()
}

func enveloped(one runtime.Object) []byte {
	var found bytes.Buffer
	if err := wrapped.Encode(one, &found); err != nil {
		panic(err)
	}
	return found.Bytes()
}

// read decodes an object of a kind, whichever of the two media types it is in, and fills in defaults.
func (k kind) read(body []byte) (typed, *failure) {
	expected := k.GroupVersionKind
	read, _, err := decoder.Decode(body, &expected, nil)
	if err != nil {
		return nil, refused(400, "BadRequest", err.Error())
	}
	found, ok := read.(typed)
	if !ok {
		return nil, refused(400, "BadRequest", fmt.Sprintf("%T is no object", read))
	}
	if found.GetObjectKind().GroupVersionKind().Kind != k.Kind {
		return nil, refused(400, "BadRequest", "expected a "+k.Kind)
	}
	return found, nil
}

// stored is a version of an object as it is kept.
func (k kind) stored(one typed, version uint64) *object {
	legacyscheme.Scheme.Default(one)
	one.SetResourceVersion(text(version))
	one.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind)
	set := fields.Set{"metadata.name": one.GetName(), "metadata.namespace": one.GetNamespace()}
	if pod, ok := one.(*v1.Pod); ok {
		set["spec.nodeName"] = pod.Spec.NodeName
		set["spec.schedulerName"] = pod.Spec.SchedulerName
		set["status.phase"] = string(pod.Status.Phase)
	}
	return &object{
		key:       key(one.GetNamespace(), one.GetName()),
		namespace: one.GetNamespace(),
		name:      one.GetName(),
		uid:       string(one.GetUID()),
		version:   version,
		labels:    labels.Set(one.GetLabels()),
		fields:    set,
		typed:     one,
	}
}

// created fills in what the server says of an object that is new.
func created(one typed, namespace string) {
	one.SetNamespace(namespace)
	if one.GetName() == "" {
		one.SetName(one.GetGenerateName() + strings.ReplaceAll(string(uuid.NewUUID()), "-", "")[:5])
	}
	one.SetUID(uuid.NewUUID())
	one.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	if pod, ok := one.(*v1.Pod); ok && pod.Status.Phase == "" {
		pod.Status.Phase = v1.PodPending
	}
}

// bound is the pod on a node. Nothing of it is changed but what a Binding changes.
func bound(pod *v1.Pod, node string) *v1.Pod {
	copied := *pod
	copied.Spec.NodeName = node
	copied.Status.Conditions = append(
		[]v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.Now()}},
		others(pod.Status.Conditions)...,
	)
	return &copied
}

func others(conditions []v1.PodCondition) []v1.PodCondition {
	kept := []v1.PodCondition{}
	for _, each := range conditions {
		if each.Type != v1.PodScheduled {
			kept = append(kept, each)
		}
	}
	return kept
}

// patched is the object with a patch applied to it.
func (k kind) patched(before *object, body []byte, how types.PatchType) (typed, *failure) {
	var after []byte
	var err error
	switch how {
	case types.StrategicMergePatchType:
		after, err = strategicpatch.StrategicMergePatch(before.asJSON(), body, before.typed)
	case types.MergePatchType, types.ApplyPatchType:
		after, err = merged(before.asJSON(), body)
	default:
		return nil, refused(415, "UnsupportedMediaType", string(how))
	}
	if err != nil {
		return nil, refused(400, "BadRequest", err.Error())
	}
	return k.read(after)
}

// merged applies a JSON merge patch (RFC 7386).
func merged(document, patch []byte) ([]byte, error) {
	var target, change any
	if err := json.Unmarshal(document, &target); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(patch, &change); err != nil {
		return nil, err
	}
	return json.Marshal(merge(target, change))
}

func merge(target, change any) any {
	changes, ok := change.(map[string]any)
	if !ok {
		return change
	}
	result, ok := target.(map[string]any)
	if !ok {
		result = map[string]any{}
	}
	for name, value := range changes {
		if value == nil {
			delete(result, name)
		} else {
			result[name] = merge(result[name], value)
		}
	}
	return result
}

func key(namespace, name string) string { return namespace + "/" + name }

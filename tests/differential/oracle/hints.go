package main

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// hintQuestion asks whether a plugin that rejected the pod has it tried again when an object changes from `old` (absent:
// it is new) to `new` (absent: it is gone). A pod with the UID of the waiting one is that pod.
type hintQuestion struct {
	question
	Plugin string           `json:"plugin"`
	Old    *json.RawMessage `json:"old"`
	New    *json.RawMessage `json:"new"`
}

type hintAnswer struct {
	ID    string `json:"id"`
	Queue bool   `json:"queue"`
}

func answerHint(ctx context.Context, line []byte) (answer any) {
	var asked hintQuestion
	defer func() {
		if cause := recover(); cause != nil {
			answer = unanswered{asked.ID, fmt.Sprintf("panic: %v\n%s", cause, debug.Stack())}
		}
	}()
	if err := json.Unmarshal(line, &asked); err != nil {
		return unanswered{asked.ID, err.Error()}
	}
	queue, err := asked.queues(ctx)
	if err != nil {
		return unanswered{asked.ID, err.Error()}
	}
	return hintAnswer{asked.ID, queue}
}

// queues asks the plugin's hints as isPodWorthRequeuing in backend/queue does.
func (q *hintQuestion) queues(ctx context.Context) (bool, error) {
	objects, pod, err := q.read(true)
	if err != nil {
		return false, err
	}
	cluster, err := newCluster(ctx, q.Config, objects, pod, true, nil)
	if err != nil {
		return false, err
	}
	old, err := readIf(q.Old)
	if err != nil {
		return false, err
	}
	changed, err := readIf(q.New)
	if err != nil {
		return false, err
	}
	happened, err := eventsOf(pod, old, changed)
	if err != nil {
		return false, err
	}
	waiting := pod
	if now, ok := changed.(*v1.Pod); ok && now.UID == pod.UID {
		waiting = now
	}
	for _, extension := range cluster.framework.EnqueueExtensions() {
		if extension.Name() != q.Plugin {
			continue
		}
		registered, err := extension.EventsToRegister(ctx)
		if err != nil {
			return false, err
		}
		for _, one := range registered {
			for _, event := range happened {
				if !framework.MatchClusterEvents(one.Event, event) {
					continue
				}
				if one.QueueingHintFn == nil {
					return true, nil
				}
				hint, err := one.QueueingHintFn(klog.FromContext(ctx), waiting, orNil(old), orNil(changed))
				if err != nil || hint == fwk.Queue {
					return true, nil
				}
			}
		}
		return false, nil
	}
	return false, fmt.Errorf("plugin: no %q with hints", q.Plugin)
}

func readIf(raw *json.RawMessage) (runtime.Object, error) {
	if raw == nil {
		return nil, nil
	}
	return readObject(raw, true)
}

// orNil keeps an absent object a nil interface.
func orNil(object runtime.Object) any {
	if object == nil {
		return nil
	}
	return object
}

// eventsOf says what a change amounts to, as eventhandlers.go does.
func eventsOf(pod *v1.Pod, old, changed runtime.Object) ([]fwk.ClusterEvent, error) {
	either := changed
	if changed == nil {
		either = old
	}
	action := fwk.Update
	if old == nil {
		action = fwk.Add
	} else if changed == nil {
		action = fwk.Delete
	}
	resource := fwk.EventResource("")
	switch either := either.(type) {
	case *v1.Node:
		if action == fwk.Update {
			return framework.NodeSchedulingPropertiesChange(changed.(*v1.Node), old.(*v1.Node)), nil
		}
		resource = fwk.Node
	case *v1.Pod:
		if action == fwk.Update {
			return framework.PodSchedulingPropertiesChange(changed.(*v1.Pod), old.(*v1.Pod), either.UID == pod.UID), nil
		}
		resource = fwk.AssignedPod
	case *v1.PersistentVolume:
		resource = fwk.PersistentVolume
	case *v1.PersistentVolumeClaim:
		resource = fwk.PersistentVolumeClaim
	case *storagev1.StorageClass:
		resource = fwk.StorageClass
	case *storagev1.CSINode:
		resource = fwk.CSINode
	case *storagev1.CSIDriver:
		resource = fwk.CSIDriver
	case *storagev1.CSIStorageCapacity:
		resource = fwk.CSIStorageCapacity
	case *storagev1.VolumeAttachment:
		resource = fwk.VolumeAttachment
	default:
		return nil, fmt.Errorf("%T: nobody waits for it", either)
	}
	return []fwk.ClusterEvent{{Resource: resource, ActionType: action}}, nil
}

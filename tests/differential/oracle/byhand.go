package main

import (
	"fmt"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// handInformer is an informer that is never started: its store is filled by hand, and its handlers are called at once.
type handInformer struct {
	cache.SharedIndexInformer
	handlers []cache.ResourceEventHandler
}

func (h *handInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	h.handlers = append(h.handlers, handler)
	return synced{}, nil
}

func (h *handInformer) AddEventHandlerWithResyncPeriod(
	handler cache.ResourceEventHandler, _ time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return h.AddEventHandler(handler)
}

func (h *handInformer) AddEventHandlerWithOptions(
	handler cache.ResourceEventHandler, _ cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	return h.AddEventHandler(handler)
}

func (h *handInformer) HasSynced() bool                     { return true }
func (h *handInformer) HasSyncedChecker() cache.DoneChecker { return synced{} }

// byHand has the objects of a case, and tells handlers of each change before it returns.
type byHand struct {
	factory informers.SharedInformerFactory
	version int
}

var kindsByHand = []runtime.Object{
	&v1.Node{}, &v1.Pod{}, &v1.Namespace{}, &resourceapi.ResourceClaim{}, &resourceapi.ResourceSlice{},
	&resourceapi.DeviceClass{}, &resourceapi.DeviceTaintRule{}, &schedulingv1beta1.PodGroup{},
	&policyv1.PodDisruptionBudget{},
}

func newByHand(client kubernetes.Interface) *byHand {
	made := &byHand{factory: informers.NewSharedInformerFactory(client, 0)}
	for _, kind := range kindsByHand {
		made.factory.InformerFor(kind, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
			return &handInformer{SharedIndexInformer: cache.NewSharedIndexInformer(&cache.ListWatch{}, kind, 0, indexers)}
		})
	}
	return made
}

func (b *byHand) of(object runtime.Object) (*handInformer, error) {
	for _, kind := range kindsByHand {
		if fmt.Sprintf("%T", kind) == fmt.Sprintf("%T", object) {
			informer, ok := b.factory.InformerFor(kind, nil).(*handInformer)
			if ok {
				return informer, nil
			}
		}
	}
	return nil, fmt.Errorf("%T: no kind of a group's case", object)
}

// put adds or updates an object, with a new resourceVersion.
func (b *byHand) put(object runtime.Object) error {
	informer, err := b.of(object)
	if err != nil {
		return err
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	b.version++
	accessor.SetResourceVersion(strconv.Itoa(b.version))
	before, there, err := informer.GetIndexer().Get(object)
	if err != nil {
		return err
	}
	if err := informer.GetIndexer().Update(object); err != nil {
		return err
	}
	for _, handler := range informer.handlers {
		if there {
			handler.OnUpdate(before, object)
		} else {
			handler.OnAdd(object, false)
		}
	}
	return nil
}

// drop removes an object.
func (b *byHand) drop(object runtime.Object) error {
	informer, err := b.of(object)
	if err != nil {
		return err
	}
	before, there, err := informer.GetIndexer().Get(object)
	if err != nil || !there {
		return err
	}
	if err := informer.GetIndexer().Delete(object); err != nil {
		return err
	}
	for _, handler := range informer.handlers {
		handler.OnDelete(before)
	}
	return nil
}

// get gives the object that has the kind, namespace and name of this one.
func (b *byHand) get(like runtime.Object) (runtime.Object, error) {
	informer, err := b.of(like)
	if err != nil {
		return nil, err
	}
	found, there, err := informer.GetIndexer().Get(like)
	if err != nil || !there {
		return nil, fmt.Errorf("%T is not there: %w", like, err)
	}
	object, _ := found.(runtime.Object)
	return object, nil
}

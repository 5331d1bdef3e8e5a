package main

import (
	"sort"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// object is one version of one stored object, encoded once for each of the two media types.
type object struct {
	key       string
	namespace string
	name      string
	uid       string
	version   uint64
	labels    labels.Set
	fields    fields.Set
	typed     typed
	json      encoded
	protobuf  encoded
}

// change is what watches are told; before is nil for an object that is new, after for one that is gone.
type change struct {
	version       uint64
	before, after *object
}

// collection is all objects of one kind, and everything that ever happened to them.
type collection struct {
	kind    kind
	objects map[string]*object
	history []change
	changed chan struct{} // closed at the next change
}

// store is the whole cluster. Versions are common to all kinds, as in etcd.
type store struct {
	sync.RWMutex
	version     uint64
	collections map[string]*collection
	events      map[string]int // namespace to number of events: they are counted and forgotten
}

func newStore() *store {
	made := &store{version: 1, collections: map[string]*collection{}, events: map[string]int{}}
	for _, kind := range kinds {
		made.collections[kind.path()] = &collection{
			kind: kind, objects: map[string]*object{}, changed: make(chan struct{}),
		}
	}
	return made
}

// put stores what make returns for the object that is there, with the next version. It returns what it stored.
func (s *store) put(in *collection, key string, make func(before *object, version uint64) (*object, *failure)) (*object, *failure) {
	s.Lock()
	defer s.Unlock()
	before := in.objects[key]
	after, failed := make(before, s.version+1)
	if failed != nil {
		return nil, failed
	}
	s.version++
	in.objects[key] = after
	in.record(change{s.version, before, after})
	return after, nil
}

// remove takes an object out; nil if it is not there. Nothing ends gracefully here: no kubelet runs.
func (s *store) remove(in *collection, key string) *object {
	s.Lock()
	defer s.Unlock()
	before := in.objects[key]
	if before == nil {
		return nil
	}
	delete(in.objects, key)
	s.version++
	in.record(change{s.version, before, nil})
	return before
}

func (s *store) get(in *collection, key string) *object {
	s.RLock()
	defer s.RUnlock()
	return in.objects[key]
}

// selected gives the objects in the order of their keys, and the version of which that is true.
func (s *store) selected(in *collection, wanted selection) ([]*object, uint64) {
	s.RLock()
	defer s.RUnlock()
	found := []*object{}
	for _, each := range in.objects {
		if wanted.takes(each) {
			found = append(found, each)
		}
	}
	sort.Slice(found, func(i, j int) bool { return found[i].key < found[j].key })
	return found, s.version
}

// since gives the changes after a version, from a place in the history on, and what to wait for if there are none.
func (s *store) since(in *collection, version uint64, place int) ([]change, int, chan struct{}) {
	s.RLock()
	defer s.RUnlock()
	if place < 0 {
		place = sort.Search(len(in.history), func(i int) bool { return in.history[i].version > version })
	}
	return in.history[place:len(in.history):len(in.history)], len(in.history), in.changed
}

func (c *collection) record(one change) {
	c.history = append(c.history, one)
	close(c.changed)
	c.changed = make(chan struct{})
}

// selection is which objects of a collection somebody asks for.
type selection struct {
	namespace string
	labels    labels.Selector
	fields    fields.Selector
}

func (s selection) takes(one *object) bool {
	return one != nil &&
		(s.namespace == "" || s.namespace == one.namespace) &&
		(s.labels.Empty() || s.labels.Matches(one.labels)) &&
		(s.fields.Empty() || s.fields.Matches(one.fields))
}

func text(version uint64) string { return strconv.FormatUint(version, 10) }

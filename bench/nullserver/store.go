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
	keys    []string // of the objects, in order; nil since one came or went
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
	if before == nil {
		in.keys = nil
	}
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
	in.keys = nil
	s.version++
	in.record(change{s.version, before, nil})
	return before
}

func (s *store) get(in *collection, key string) *object {
	s.RLock()
	defer s.RUnlock()
	return in.objects[key]
}

// selected gives the objects after a key in the order of their keys, at most so many (0: all), how many keys follow the
// last of them, and the version of which that is true. Keys are sorted once, as a client may ask for hundreds of pages.
func (s *store) selected(in *collection, wanted selection, after string, most int) ([]*object, int, uint64) {
	s.Lock()
	defer s.Unlock()
	if in.keys == nil {
		in.keys = make([]string, 0, len(in.objects))
		for key := range in.objects {
			in.keys = append(in.keys, key)
		}
		sort.Strings(in.keys)
	}
	found := []*object{}
	begin := 0
	if after != "" {
		begin = sort.Search(len(in.keys), func(i int) bool { return in.keys[i] > after })
	}
	for place := begin; place < len(in.keys); place++ {
		if each := in.objects[in.keys[place]]; wanted.takes(each) {
			found = append(found, each)
		}
		if most > 0 && len(found) == most {
			return found, len(in.keys) - place - 1, s.version
		}
	}
	return found, 0, s.version
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

// all says whether every object of a collection is asked for.
func (s selection) all() bool {
	return s.namespace == "" && s.labels.Empty() && s.fields.Empty()
}

func text(version uint64) string { return strconv.FormatUint(version, 10) }

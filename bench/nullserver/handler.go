package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// largest is how many bytes of a body are read; as the real server's.
const largest = 3 << 20

type handler struct{ store *store }

// target is what a path names.
type target struct {
	*collection
	namespace   string
	name        string
	subresource string
}

func (h *handler) ServeHTTP(to http.ResponseWriter, request *http.Request) {
	if h.system(to, request) {
		return
	}
	at, failed := h.target(request.URL.Path)
	if failed == nil {
		failed = h.serve(to, request, at)
	}
	if failed != nil {
		failed.write(to, request)
	}
}

func (h *handler) serve(to http.ResponseWriter, request *http.Request, at target) *failure {
	if at.kind.path() == events {
		return h.event(to, request, at)
	}
	switch {
	case request.Method == http.MethodGet && at.name == "" && request.URL.Query().Get("watch") != "":
		return h.watch(to, request, at)
	case request.Method == http.MethodGet && at.name == "":
		return h.list(to, request, at)
	case request.Method == http.MethodGet:
		found := h.store.get(at.collection, key(at.namespace, at.name))
		if found == nil {
			return notFound(at)
		}
		writeStored(to, request, http.StatusOK, found)
		return nil
	case request.Method == http.MethodDelete:
		return h.delete(to, request, at)
	}
	body, err := io.ReadAll(http.MaxBytesReader(to, request.Body, largest))
	if err != nil {
		return refused(413, "RequestEntityTooLarge", err.Error())
	}
	switch {
	case request.Method == http.MethodPost && at.subresource == "binding":
		return h.bind(to, request, at, body)
	case request.Method == http.MethodPost && at.name == "":
		return h.create(to, request, at, body)
	case request.Method == http.MethodPut:
		return h.change(to, request, at, func(*object) (typed, *failure) { return at.kind.read(body) })
	case request.Method == http.MethodPatch:
		how := types.PatchType(request.Header.Get("Content-Type"))
		return h.change(to, request, at, func(before *object) (typed, *failure) { return at.kind.patched(before, body, how) })
	}
	return refused(405, "MethodNotAllowed", request.Method+" is not served here")
}

// target finds what a path names.
func (h *handler) target(path string) (target, *failure) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	roots := map[string]int{"api": 2, "apis": 3}[parts[0]]
	if roots == 0 || len(parts) <= roots {
		return target{}, refused(404, "NotFound", "nothing is served at "+path)
	}
	root, rest := "/"+strings.Join(parts[:roots], "/"), parts[roots:]
	found := target{}
	if rest[0] == "namespaces" && len(rest) > 2 && rest[2] != "status" && rest[2] != "finalize" {
		found.namespace, rest = rest[1], rest[2:]
	}
	found.collection = h.store.collections[root+"/"+rest[0]]
	if found.collection == nil {
		return target{}, refused(404, "NotFound", "the server could not find the requested resource")
	}
	if len(rest) > 1 {
		found.name = rest[1]
	}
	if len(rest) > 2 {
		found.subresource = rest[2]
	}
	return found, nil
}

func notFound(at target) *failure {
	return refused(404, "NotFound", fmt.Sprintf("%s %q not found", at.kind.plural, at.name))
}

// event counts what is written, and says it back.
func (h *handler) event(to http.ResponseWriter, request *http.Request, at target) *failure {
	h.store.Lock()
	defer h.store.Unlock()
	switch request.Method {
	case http.MethodGet:
		there := int64(h.store.events[at.namespace])
		writeList(to, request, at.kind, nil, metav1.ListMeta{ResourceVersion: text(h.store.version), RemainingItemCount: &there})
	case http.MethodDelete:
		delete(h.store.events, at.namespace)
		writeObject(to, request, http.StatusOK, success)
	default:
		body, err := io.ReadAll(http.MaxBytesReader(to, request.Body, largest))
		if err != nil {
			return refused(413, "RequestEntityTooLarge", err.Error())
		}
		code := http.StatusOK
		if request.Method == http.MethodPost {
			h.store.events[at.namespace]++
			code = http.StatusCreated
		}
		mediaType, _, _ := strings.Cut(request.Header.Get("Content-Type"), ";")
		writeBytes(to, code, mediaType, body)
	}
	return nil
}

func (h *handler) create(to http.ResponseWriter, request *http.Request, at target, body []byte) *failure {
	one, failed := at.kind.read(body)
	if failed != nil {
		return failed
	}
	created(one, at.namespace)
	h.prioritise(one)
	made, failed := h.store.put(at.collection, key(at.namespace, one.GetName()), func(before *object, version uint64) (*object, *failure) {
		if before != nil {
			return nil, refused(409, "AlreadyExists", fmt.Sprintf("%s %q already exists", at.kind.plural, one.GetName()))
		}
		return at.kind.stored(one, version), nil
	})
	if failed != nil {
		return failed
	}
	writeStored(to, request, http.StatusCreated, made)
	return nil
}

// prioritise gives a pod the number of its priority class, which is the one thing of admission that schedulers need.
func (h *handler) prioritise(one typed) {
	pod, ok := one.(*v1.Pod)
	if !ok || pod.Spec.Priority != nil {
		return
	}
	priority := int32(0)
	if found := h.store.get(h.store.collections[priorityClasses], key("", pod.Spec.PriorityClassName)); found != nil {
		priority = found.typed.(*schedulingv1.PriorityClass).Value
	}
	pod.Spec.Priority = &priority
}

func (h *handler) bind(to http.ResponseWriter, request *http.Request, at target, body []byte) *failure {
	read, _, err := decoder.Decode(body, nil, nil)
	binding, ok := read.(*v1.Binding)
	if err != nil || !ok {
		return refused(400, "BadRequest", fmt.Sprintf("no Binding: %v", err))
	}
	_, failed := h.store.put(at.collection, key(at.namespace, at.name), func(before *object, version uint64) (*object, *failure) {
		if before == nil {
			return nil, notFound(at)
		}
		pod := before.typed.(*v1.Pod)
		if binding.UID != "" && binding.UID != pod.UID {
			return nil, refused(409, "Conflict", "the pod has another uid")
		}
		if pod.Spec.NodeName != "" {
			return nil, refused(409, "Conflict", fmt.Sprintf("pod %s is already assigned to node %q", pod.Name, pod.Spec.NodeName))
		}
		return at.kind.stored(bound(pod, binding.Target.Name), version), nil
	})
	if failed != nil {
		return failed
	}
	writeObject(to, request, http.StatusCreated, success)
	return nil
}

func (h *handler) change(
	to http.ResponseWriter, request *http.Request, at target, make func(*object) (typed, *failure),
) *failure {
	made, failed := h.store.put(at.collection, key(at.namespace, at.name), func(before *object, version uint64) (*object, *failure) {
		if before == nil {
			return nil, notFound(at)
		}
		one, failed := make(before)
		if failed != nil {
			return nil, failed
		}
		if sent := one.GetResourceVersion(); sent != "" && sent != text(before.version) {
			return nil, refused(409, "Conflict", "the object has been modified")
		}
		one.SetNamespace(before.namespace)
		one.SetUID(types.UID(before.uid))
		one.SetCreationTimestamp(before.typed.GetCreationTimestamp())
		return at.kind.stored(one, version), nil
	})
	if failed != nil {
		return failed
	}
	writeStored(to, request, http.StatusOK, made)
	return nil
}

func (h *handler) delete(to http.ResponseWriter, request *http.Request, at target) *failure {
	if at.name == "" {
		wanted, failed := selectionOf(request, at)
		if failed != nil {
			return failed
		}
		found, _, _ := h.store.selected(at.collection, wanted, "", 0)
		for _, each := range found {
			h.store.remove(at.collection, each.key)
		}
		writeObject(to, request, http.StatusOK, success)
		return nil
	}
	gone := h.store.remove(at.collection, key(at.namespace, at.name))
	if gone == nil {
		return notFound(at)
	}
	writeStored(to, request, http.StatusOK, gone)
	return nil
}

func (h *handler) list(to http.ResponseWriter, request *http.Request, at target) *failure {
	wanted, failed := selectionOf(request, at)
	if failed != nil {
		return failed
	}
	query := request.URL.Query()
	from, _ := base64.RawURLEncoding.DecodeString(query.Get("continue"))
	most, _ := strconv.Atoi(query.Get("limit"))
	found, left, version := h.store.selected(at.collection, wanted, string(from), most)
	meta := metav1.ListMeta{ResourceVersion: text(version)}
	if left > 0 {
		meta.Continue = base64.RawURLEncoding.EncodeToString([]byte(found[most-1].key))
		if wanted.all() {
			remaining := int64(left)
			meta.RemainingItemCount = &remaining
		}
	}
	writeList(to, request, at.kind, found, meta)
	return nil
}

func (h *handler) watch(to http.ResponseWriter, request *http.Request, at target) *failure {
	wanted, failed := selectionOf(request, at)
	if failed != nil {
		return failed
	}
	query, inProtobuf := request.URL.Query(), wantsProtobuf(request)
	version, _ := strconv.ParseUint(query.Get("resourceVersion"), 10, 64)
	mediaType := jsonType
	if inProtobuf {
		mediaType = protobufType + ";stream=watch"
	}
	to.Header().Set("Content-Type", mediaType)
	to.WriteHeader(http.StatusOK)
	out := &outbound{ResponseWriter: to, control: http.NewResponseController(to)}
	initial := query.Get("sendInitialEvents") == "true"
	if initial || version == 0 {
		there, _, listed := h.store.selected(at.collection, wanted, "", 0)
		for _, each := range there {
			out.write(frame(watch.Added, each, inProtobuf))
		}
		version = listed
		if initial {
			out.write(frame(watch.Bookmark, bookmark(at.kind, version, true), inProtobuf))
		}
	}
	out.flush()
	var until <-chan time.Time
	if seconds, err := strconv.Atoi(query.Get("timeoutSeconds")); err == nil && seconds > 0 {
		timer := time.NewTimer(time.Duration(seconds) * time.Second)
		defer timer.Stop()
		until = timer.C
	}
	for place := -1; out.failed == nil; {
		var changes []change
		var changed chan struct{}
		changes, place, changed = h.store.since(at.collection, version, place)
		for _, each := range changes {
			if what, one := told(each, wanted); one != nil {
				out.write(frame(what, one, inProtobuf))
			}
		}
		out.flush()
		if len(changes) > 0 {
			continue
		}
		select {
		case <-changed:
		case <-until:
			return nil
		case <-request.Context().Done():
			return nil
		}
	}
	return nil
}

// told is what a change is to somebody who sees only some objects; nil: nothing.
func told(one change, wanted selection) (watch.EventType, *object) {
	was, is := wanted.takes(one.before), wanted.takes(one.after)
	switch {
	case was && is:
		return watch.Modified, one.after
	case is:
		return watch.Added, one.after
	case was:
		return watch.Deleted, gone(one)
	}
	return "", nil
}

// gone is an object as its deletion tells of it: as it was, with the version of the deletion.
func gone(one change) *object {
	copied := one.before.typed.DeepCopyObject().(typed)
	copied.SetResourceVersion(text(one.version))
	return &object{typed: copied}
}

// outbound is what a watch writes to; it remembers that nobody listens any more.
type outbound struct {
	http.ResponseWriter
	control *http.ResponseController
	failed  error
}

func (o *outbound) write(body []byte) {
	if o.failed == nil {
		_, o.failed = o.ResponseWriter.Write(body)
	}
}

func (o *outbound) flush() {
	if o.failed == nil {
		o.failed = o.control.Flush()
	}
}

func selectionOf(request *http.Request, at target) (selection, *failure) {
	query := request.URL.Query()
	byLabel, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		return selection{}, refused(400, "BadRequest", err.Error())
	}
	byField, err := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil {
		return selection{}, refused(400, "BadRequest", err.Error())
	}
	return selection{at.namespace, byLabel, byField}, nil
}

// system answers what is about the server itself, and says whether it did.
func (h *handler) system(to http.ResponseWriter, request *http.Request) bool {
	path := request.URL.Path
	switch {
	case path == "/readyz" || path == "/healthz" || path == "/livez":
		writeBytes(to, http.StatusOK, "text/plain", []byte("ok"))
	case path == "/version":
		said(to, map[string]string{"major": "1", "minor": "37", "gitVersion": "v1.37.0"})
	case path == "/api":
		said(to, map[string]any{"kind": "APIVersions", "versions": []string{"v1"}})
	case path == "/apis":
		said(to, groups())
	case resources(path) != nil:
		said(to, resources(path))
	default:
		return false
	}
	return true
}

func said(to http.ResponseWriter, what any) {
	body, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	writeBytes(to, http.StatusOK, jsonType, body)
}

func groups() *metav1.APIGroupList {
	found := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	seen := map[string]bool{"": true}
	for _, each := range kinds {
		if !seen[each.Group] {
			seen[each.Group] = true
			version := metav1.GroupVersionForDiscovery{GroupVersion: each.GroupVersion().String(), Version: each.Version}
			found.Groups = append(found.Groups, metav1.APIGroup{
				Name: each.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
			})
		}
	}
	return found
}

func resources(path string) *metav1.APIResourceList {
	found := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}}
	for _, each := range kinds {
		if each.root() == path {
			found.GroupVersion = each.GroupVersion().String()
			found.APIResources = append(found.APIResources, metav1.APIResource{
				Name: each.plural, Namespaced: each.namespaced, Kind: each.Kind,
				Verbs: metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
			})
		}
	}
	if found.GroupVersion == "" {
		return nil
	}
	return found
}

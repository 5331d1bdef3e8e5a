package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// ruledExtender says of each pod what a case has written down for it: which nodes it refuses (for now, or whatever is
// removed there), how it ranks the others, and whether it fails. It answers by names alone, as an extender does that
// knows nothing of the victims that are left out in thought.
//
// kube-scheduler has to know it from the start, and ask it by HTTP as any other: only a framework that is made with
// extenders has pods tried again that one of them has refused.
type ruledExtender struct {
	Weight   int64                       `json:"weight"`
	Refuses  map[string][]string         `json:"refuses"`
	Hopeless map[string][]string         `json:"hopeless"`
	Ranks    map[string]map[string]int64 `json:"ranks"`
	Fails    []string                    `json:"fails"`
}

// serve answers on loopback until the server is closed.
func (e *ruledExtender) serve() (*httptest.Server, schedulerconfig.Extender) {
	verbs := http.NewServeMux()
	verbs.HandleFunc("/filter", answering(func(args extenderv1.ExtenderArgs) any { return e.filter(args) }))
	verbs.HandleFunc("/prioritize", answering(func(args extenderv1.ExtenderArgs) any { return e.prioritize(args) }))
	server := httptest.NewServer(verbs)
	return server, schedulerconfig.Extender{
		URLPrefix: server.URL, FilterVerb: "filter", PrioritizeVerb: "prioritize", Weight: e.Weight, NodeCacheCapable: true,
	}
}

func answering(answer func(extenderv1.ExtenderArgs) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var args extenderv1.ExtenderArgs
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := json.NewEncoder(w).Encode(answer(args)); err != nil {
			panic(err) // the connection is closed then, and kube-scheduler says so
		}
	}
}

func (e *ruledExtender) filter(args extenderv1.ExtenderArgs) extenderv1.ExtenderFilterResult {
	name := args.Pod.Name
	if slices.Contains(e.Fails, name) {
		return extenderv1.ExtenderFilterResult{Error: "the extender fails"}
	}
	failed, unresolvable, left := extenderv1.FailedNodesMap{}, extenderv1.FailedNodesMap{}, []string{}
	for _, node := range *args.NodeNames {
		switch {
		case slices.Contains(e.Hopeless[name], node):
			unresolvable[node] = "never here"
		case slices.Contains(e.Refuses[name], node):
			failed[node] = "not here"
		default:
			left = append(left, node)
		}
	}
	return extenderv1.ExtenderFilterResult{NodeNames: &left, FailedNodes: failed, FailedAndUnresolvableNodes: unresolvable}
}

func (e *ruledExtender) prioritize(args extenderv1.ExtenderArgs) extenderv1.HostPriorityList {
	found := extenderv1.HostPriorityList{}
	for _, node := range *args.NodeNames {
		found = append(found, extenderv1.HostPriority{Host: node, Score: e.Ranks[args.Pod.Name][node]})
	}
	return found
}

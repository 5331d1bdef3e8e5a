package main

import (
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// ruledExtender says of each pod what a case has written down for it: which nodes it refuses (for now, or whatever is
// removed there), how it ranks the others, and whether it fails. It answers by names alone, as an extender does that
// knows nothing of the victims that are left out in thought.
type ruledExtender struct {
	Weight   int64                       `json:"weight"`
	Refuses  map[string][]string         `json:"refuses"`
	Hopeless map[string][]string         `json:"hopeless"`
	Ranks    map[string]map[string]int64 `json:"ranks"`
	Fails    []string                    `json:"fails"`
}

var _ fwk.Extender = &ruledExtender{}

func (e *ruledExtender) Name() string { return "ruled" }

func (e *ruledExtender) Filter(pod *v1.Pod, nodes []fwk.NodeInfo) ([]fwk.NodeInfo, extenderv1.FailedNodesMap, extenderv1.FailedNodesMap, error) {
	if sets.New(e.Fails...).Has(pod.Name) {
		return nil, nil, nil, errors.New("the extender fails")
	}
	refused, hopeless := sets.New(e.Refuses[pod.Name]...), sets.New(e.Hopeless[pod.Name]...)
	failed, unresolvable := extenderv1.FailedNodesMap{}, extenderv1.FailedNodesMap{}
	var left []fwk.NodeInfo
	for _, node := range nodes {
		name := node.Node().Name
		switch {
		case hopeless.Has(name):
			unresolvable[name] = "never here"
		case refused.Has(name):
			failed[name] = "not here"
		default:
			left = append(left, node)
		}
	}
	return left, failed, unresolvable, nil
}

func (e *ruledExtender) Prioritize(pod *v1.Pod, nodes []fwk.NodeInfo) (*extenderv1.HostPriorityList, int64, error) {
	found := extenderv1.HostPriorityList{}
	for _, node := range nodes {
		found = append(found, extenderv1.HostPriority{Host: node.Node().Name, Score: e.Ranks[pod.Name][node.Node().Name]})
	}
	return &found, e.Weight, nil
}

func (e *ruledExtender) Bind(*v1.Binding) error    { return errors.New("it does not bind") }
func (e *ruledExtender) IsBinder() bool            { return false }
func (e *ruledExtender) IsInterested(*v1.Pod) bool { return true }
func (e *ruledExtender) IsPrioritizer() bool       { return true }
func (e *ruledExtender) IsFilter() bool            { return true }
func (e *ruledExtender) SupportsPreemption() bool  { return false }
func (e *ruledExtender) IsIgnorable() bool         { return false }
func (e *ruledExtender) ProcessPreemption(*v1.Pod, map[string]*extenderv1.Victims, fwk.NodeInfoLister) (map[string]*extenderv1.Victims, error) {
	return nil, errors.New("it is not asked about victims")
}

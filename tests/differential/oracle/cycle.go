package main

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

type verdict struct {
	Plugin  string   `json:"plugin"`
	Code    string   `json:"code"`
	Reasons []string `json:"reasons"`
}

type preemption struct {
	Node    string   `json:"node"`
	Victims []string `json:"victims"`
}

type scores map[string]map[string]int64

// want is one answer, as vectors have it. Error is a cycle that failed: the pod is no one's fault, and is tried again.
// Errors are those of all nodes: kube-scheduler ends with the one that comes first.
type want struct {
	PreFilter       *verdict           `json:"preFilter,omitempty"`
	PreFilterNodes  []string           `json:"preFilterNodes,omitempty"`
	Filter          map[string]verdict `json:"filter,omitempty"`
	Feasible        []string           `json:"feasible"`
	Raw             scores             `json:"raw,omitempty"`
	Weighted        scores             `json:"weighted,omitempty"`
	Total           map[string]int64   `json:"total,omitempty"`
	Best            []string           `json:"best,omitempty"`
	Allocations     allocations        `json:"allocations,omitempty"`
	Written         documents          `json:"written,omitempty"`
	Message         string             `json:"message,omitempty"`
	Preemption      []preemption       `json:"preemption,omitempty"`
	PostFilterError string             `json:"postFilterError,omitempty"`
	Error           string             `json:"error,omitempty"`
	Errors          []string           `json:"errors,omitempty"`
}

// decide runs one cycle on all nodes: schedulePod and schedulingAlgorithm of schedule_one.go without sampling, the
// shortcut for a single node and the one for a nominated node. Preemption is run `repeat` times, for its random picks.
func (c *cluster) decide(ctx context.Context, pod *v1.Pod, repeat int) (*want, error) {
	got := &want{Feasible: []string{}}
	nodes, err := c.snapshot.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	if len(nodes) == 0 {
		got.Message = scheduler.ErrNoNodesAvailable.Error()
		return got, nil
	}
	state := framework.NewCycleState()
	diagnosis := framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()}
	only, status, rejectors := c.framework.RunPreFilterPlugins(ctx, state, pod)
	if !status.IsSuccess() && !status.IsRejected() {
		got.Error = status.AsError().Error()
		return got, nil
	}
	if !status.IsSuccess() {
		got.PreFilter = verdictOf(status)
		diagnosis.NodeToStatus.SetAbsentNodesStatus(status)
		diagnosis.PreFilterMsg = status.Message()
		c.preempt(ctx, got, state, pod, len(nodes), diagnosis, repeat)
		return got, nil
	}
	if !only.AllNodes() {
		got.PreFilterNodes = sets.List(only.NodeNames)
		nodes = slices.DeleteFunc(slices.Clone(nodes), func(n fwk.NodeInfo) bool { return !only.NodeNames.Has(n.Node().Name) })
		text := fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(rejectors))
		diagnosis.NodeToStatus.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable, text))
	}
	var feasible []fwk.NodeInfo
	for _, node := range nodes {
		name := node.Node().Name
		status := c.framework.RunFilterPluginsWithNominatedPods(ctx, state, pod, node)
		switch {
		case status.IsSuccess():
			feasible = append(feasible, node)
			got.Feasible = append(got.Feasible, name)
		case status.IsRejected():
			if got.Filter == nil {
				got.Filter = map[string]verdict{}
			}
			got.Filter[name] = *verdictOf(status)
			diagnosis.NodeToStatus.Set(name, status)
		default:
			got.Errors = append(got.Errors, status.AsError().Error())
		}
	}
	if len(got.Errors) > 0 {
		return &want{Feasible: []string{}, Error: got.Errors[0], Errors: got.Errors}, nil
	}
	slices.Sort(got.Feasible)
	if len(feasible) == 0 {
		c.preempt(ctx, got, state, pod, c.snapshot.NumNodesInPlacement(), diagnosis, repeat)
		return got, nil
	}
	if err := c.score(ctx, got, state, pod, feasible); err != nil || got.Error != "" {
		return got, err
	}
	if err := c.allocate(ctx, got, state, pod); err != nil {
		got.Error = err.Error()
	}
	return got, nil
}

// score fills in the scores, as prioritizeNodes does.
func (c *cluster) score(ctx context.Context, got *want, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) error {
	if status := c.framework.RunPreScorePlugins(ctx, state, pod, nodes); !status.IsSuccess() {
		got.Error = status.AsError().Error()
		return nil
	}
	scored, status := c.framework.RunScorePlugins(ctx, state, pod, nodes)
	if !status.IsSuccess() {
		got.Error = status.AsError().Error()
		return nil
	}
	got.Raw, got.Weighted, got.Total = scores{}, scores{}, map[string]int64{}
	for _, node := range scored {
		got.Raw[node.Name], got.Weighted[node.Name] = byPlugin(node.RawScores), byPlugin(node.Scores)
		got.Total[node.Name] = node.TotalScore
		if len(got.Best) > 0 && got.Total[got.Best[0]] < node.TotalScore {
			got.Best = nil
		}
		if len(got.Best) == 0 || got.Total[got.Best[0]] == node.TotalScore {
			got.Best = append(got.Best, node.Name)
		}
	}
	slices.Sort(got.Best)
	return nil
}

// preempt runs PostFilter and writes the message, as schedulingAlgorithm does.
func (c *cluster) preempt(
	ctx context.Context, got *want, state fwk.CycleState, pod *v1.Pod, nodes int, diagnosis framework.Diagnosis, repeat int,
) {
	if c.framework.HasPostFilterPlugins() {
		for range repeat {
			result, status := c.framework.RunPostFilterPlugins(ctx, state, pod, diagnosis.NodeToStatus)
			victims := c.deleted.take()
			if status.Code() == fwk.Error {
				got.PostFilterError = status.Message()
				return
			}
			diagnosis.PostFilterMsg = status.Message()
			if !status.IsSuccess() || result == nil || result.NominatingInfo == nil || result.NominatedNodeName == "" {
				break
			}
			slices.Sort(victims)
			got.add(preemption{Node: result.NominatedNodeName, Victims: append([]string{}, victims...)})
		}
	}
	fit := framework.FitError{Pod: pod, NumAllNodes: nodes, Diagnosis: diagnosis}
	got.Message = fit.Error()
}

func (w *want) add(picked preemption) {
	for _, seen := range w.Preemption {
		if seen.Node == picked.Node && slices.Equal(seen.Victims, picked.Victims) {
			return
		}
	}
	w.Preemption = append(w.Preemption, picked)
}

func verdictOf(status *fwk.Status) *verdict {
	return &verdict{Plugin: status.Plugin(), Code: status.Code().String(), Reasons: status.Reasons()}
}

func byPlugin(list []fwk.PluginScore) map[string]int64 {
	found := make(map[string]int64, len(list))
	for _, score := range list {
		found[score.Name] = score.Score
	}
	return found
}

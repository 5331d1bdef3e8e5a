// Command qos answers for each pod spec (a line of JSON) which QoS class Kubernetes' own functions give that pod.
//
// computed: ComputePodQOS on the pod as written; seen: the resources as a mutating webhook sees them, after defaulting;
// stored: what the pod strategy puts into status.qosClass. tests/unit/policy/record_qos.py asks.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/helper/qos"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/registry/core/pod"
)

type answer struct {
	Computed api.PodQOSClass `json:"computed"`
	Stored   api.PodQOSClass `json:"stored"`
	Seen     v1.PodSpec      `json:"seen"`
}

func ask(line []byte) (answer, error) {
	given := v1.Pod{}
	if err := json.Unmarshal(line, &given.Spec); err != nil {
		return answer{}, err
	}
	written := api.Pod{}
	if err := legacyscheme.Scheme.Convert(given.DeepCopy(), &written, nil); err != nil {
		return answer{}, err
	}
	legacyscheme.Scheme.Default(&given)
	stored := api.Pod{}
	if err := legacyscheme.Scheme.Convert(given.DeepCopy(), &stored, nil); err != nil {
		return answer{}, err
	}
	pod.Strategy.PrepareForCreate(context.Background(), &stored)
	return answer{qos.ComputePodQOS(&written), stored.Status.QOSClass, given.Spec}, nil
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		found, err := ask(lines.Bytes())
		if err == nil {
			err = json.NewEncoder(os.Stdout).Encode(found)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

package dynamicresources

import (
	"encoding/json"
	"os"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
)

// pluginCase is what one case of upstream's table of plugin tests asks. It is compiled beside a copy of that table, into
// which a call of note is written.
type pluginCase struct {
	Name     string                       `json:"name"`
	Pod      *v1.Pod                      `json:"pod"`
	Nodes    []*v1.Node                   `json:"nodes"`
	Pods     []*v1.Pod                    `json:"pods"`
	Claims   []*resourceapi.ResourceClaim `json:"claims"`
	Classes  []*resourceapi.DeviceClass   `json:"classes"`
	Objects  []apiruntime.Object          `json:"objects"`
	InFlight []*resourceapi.ResourceClaim `json:"inFlight"`
}

var noted struct {
	sync.Mutex
	lines *json.Encoder
}

// note writes a case to the file that BERTH_CASES names. It panics where that can't be done: no case is to be missed.
func note(name string, tc *testPluginCase, nodes []*v1.Node) {
	noted.Lock()
	defer noted.Unlock()
	if noted.lines == nil {
		file, err := os.Create(os.Getenv("BERTH_CASES"))
		if err != nil {
			panic(err)
		}
		noted.lines = json.NewEncoder(file)
	}
	one := pluginCase{name, tc.pod, nodes, tc.existingPods, tc.claims, tc.classes, tc.objs, tc.inFlightClaims}
	if err := noted.lines.Encode(one); err != nil {
		panic(err)
	}
}

package dynamicresources

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2/ktesting"
)

// servedPod is a pod, and the classes that serve what it asks for, by resource.
type servedPod struct {
	Pod     *v1.Pod                    `json:"pod"`
	Classes map[v1.ResourceName]string `json:"classes"`
}

// servedBy is what the claim of such a pod asks for, and which of its requests serve which container.
type servedBy struct {
	Requests []resourceapi.DeviceRequest           `json:"requests"`
	Mappings []v1.ContainerExtendedResourceRequest `json:"mappings"`
}

// TestMappings reads pods from the file that BERTH_ASKED names, and writes a line for each to that of BERTH_CASES.
func TestMappings(t *testing.T) {
	asked, err := os.Open(os.Getenv("BERTH_ASKED"))
	if err != nil {
		t.Fatal(err)
	}
	defer asked.Close()
	said, err := os.Create(os.Getenv("BERTH_CASES"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	logger, _ := ktesting.NewTestContext(t)
	lines, answers := bufio.NewScanner(asked), json.NewEncoder(said)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var one servedPod
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		classes := map[v1.ResourceName]*resourceapi.DeviceClass{}
		wanted := map[v1.ResourceName]int64{}
		for resource, name := range one.Classes {
			classes[resource] = &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
			wanted[resource] = 1
		}
		var answer servedBy
		answer.Requests, answer.Mappings = createRequestsAndMappings(one.Pod, wanted, logger, &mockDeviceClassResolver{classes})
		if err := answers.Encode(answer); err != nil {
			t.Fatal(err)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

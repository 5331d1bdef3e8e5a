// Reads a PodList and prints the pods for which Karpenter would look for a node, as namespace/name.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/karpenter/pkg/utils/pod"
)

func main() {
	var pods corev1.PodList
	if err := json.NewDecoder(os.Stdin).Decode(&pods); err != nil {
		log.Fatal(err)
	}
	for i := range pods.Items {
		if found := &pods.Items[i]; pod.IsProvisionable(found) {
			fmt.Printf("%s/%s\n", found.Namespace, found.Name)
		}
	}
}

// Command gc is kube-controller-manager's garbage collector and nothing else of it: what is owned goes with its owner.
package main

import (
	"context"
	"flag"
	"time"

	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
)

const (
	workers = 2
	period  = 5 * time.Second // between two looks for kinds that are new
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "of an administrator")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		klog.Fatal(err)
	}
	ctx := context.Background()
	client, objects := kubernetes.NewForConfigOrDie(config), metadata.NewForConfigOrDie(config)
	started := make(chan struct{})
	close(started) // nobody else needs the informers
	collector, err := garbagecollector.NewGarbageCollector(
		ctx, client, objects,
		restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery())),
		garbagecollector.DefaultIgnoredResources(),
		informerfactory.NewInformerFactory(
			informers.NewSharedInformerFactory(client, 0), metadatainformer.NewSharedInformerFactory(objects, 0)),
		started,
	)
	if err != nil {
		klog.Fatal(err)
	}
	go collector.Sync(ctx, client.Discovery(), period)
	collector.Run(ctx, workers, period)
}

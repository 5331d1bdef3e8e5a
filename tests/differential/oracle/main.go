// Command oracle answers scheduling questions with kube-scheduler's own plugins: JSON lines in, JSON lines out.
//
// A case is a line of the vectors' format (id, config, objects, pod); the answer is {"id", "want"} or {"id", "error"},
// in the order of the cases. With -default the objects get the API server's defaults first, and the whole case is
// printed with its answer: a vector. Invalid pods and nodes are then refused, as the API server would.
// Gates are those that are on by default, and those of -gates.
// With -hints a case is a question to queueing hints instead (see hints.go), with -groups one about pod groups (groups.go).
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

func main() {
	defaults := flag.Bool("default", false, "set the API server's defaults first, print whole vectors")
	hints := flag.Bool("hints", false, "answer questions to queueing hints")
	groups := flag.Bool("groups", false, "answer cases of pod groups")
	topology := flag.Bool("topology", false, "with -groups: also with topology constraints (TopologyAwareWorkloadScheduling)")
	more := flag.String("gates", "", "feature gates that are switched for all cases: Name=true,Other=true")
	flag.BoolVar(&anyOrder, "any-order", false, "with -groups: pods are seen to be bound in an order that is left to chance")
	flag.Parse()
	// Else victims are deleted behind the plugin's back, and a run could not tell them. All other gates are those of
	// kube-scheduler at its default flags: emulation of this version, compatible with the one before.
	gates := "SchedulerAsyncPreemption=false"
	if *more != "" {
		gates += "," + *more
	}
	if *groups {
		gates += ",GenericWorkload=true"
	}
	if *topology {
		gates += ",TopologyAwareWorkloadScheduling=true"
	}
	if err := utilfeature.DefaultMutableFeatureGate.Set(gates); err != nil {
		fail(err)
	}
	klog.SetLogger(klog.Logger{})
	metrics.Register()
	ctx := klog.NewContext(context.Background(), klog.Logger{})
	answer := func(line []byte) any { return answerCase(ctx, line, *defaults) }
	if *hints {
		answer = func(line []byte) any { return answerHint(ctx, line) }
	}
	if *groups {
		answer = func(line []byte) any { return answerGroups(ctx, line) }
	}
	if err := serve(os.Stdin, os.Stdout, answer); err != nil {
		fail(err)
	}
}

// serve answers line by line, several at once, in order, and at once when nothing more is waiting.
func serve(in io.Reader, out io.Writer, answer func([]byte) any) error {
	reader, writer := bufio.NewReaderSize(in, 1<<20), bufio.NewWriterSize(out, 1<<20)
	answers := make(chan chan any, 2*runtime.GOMAXPROCS(0))
	failed := make(chan error, 1)
	go func() {
		defer close(answers)
		for {
			line, err := reader.ReadBytes('\n')
			if len(line) > 1 {
				one := make(chan any, 1)
				answers <- one
				go func() { one <- answer(line) }()
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					failed <- err
				}
				return
			}
		}
	}()
	encoder := json.NewEncoder(writer)
	encoder.SetEscapeHTML(false)
	for one := range answers {
		if err := encoder.Encode(<-one); err != nil {
			return err
		}
		if len(answers) == 0 {
			if err := writer.Flush(); err != nil {
				return err
			}
		}
	}
	select {
	case err := <-failed:
		return err
	default:
		return writer.Flush()
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

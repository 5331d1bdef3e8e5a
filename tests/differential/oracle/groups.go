package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	schedulingclient "k8s.io/client-go/kubernetes/typed/scheduling/v1beta1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/topologyaware"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/profile"
	clocktesting "k8s.io/utils/clock/testing"
)

// A case of groups is {"id", "config", "steps"}, and "extender" if there is one; a step is a list of changes, {"put":
// object} or {"drop": object}.
// After each step a whole Scheduler of kube-scheduler works until it has nothing more to try, on informers whose
// handlers are called by hand; the answer says for each step what it has written. Nodes are ranked by their names (the
// score plugin ByName), so that there is one best node, and no choice is left to chance.
type groupQuestion struct {
	ID     string              `json:"id"`
	Config string              `json:"config"`
	Steps  [][]json.RawMessage `json:"steps"`
	// Extender is asked about all pods, if there is one.
	Extender *ruledExtender `json:"extender"`
}

type groupChange struct {
	Put  *json.RawMessage `json:"put"`
	Drop *json.RawMessage `json:"drop"`
}

// groupWant is what there is after a step. Bound is each bound pod's node; Pods and Groups are what was written last of
// each: reason, message, nominated node; status, reason, message. Deleted are victims.
type groupWant struct {
	Bound   map[string]string    `json:"bound"`
	Pods    map[string][3]string `json:"pods"`
	Groups  map[string][3]string `json:"groups"`
	Deleted []string             `json:"deleted"`
	// Conflicts counts pods that failed since another pod of their group had written the claim that they share.
	Conflicts int `json:"conflicts"`
}

type groupAnswer struct {
	ID   string       `json:"id"`
	Want []*groupWant `json:"want"`
}

const (
	mostCycles     = 500
	stepPatience   = 10 * time.Second
	permitPatience = 2 * time.Second
)

func answerGroups(ctx context.Context, line []byte) (answer any) {
	var asked groupQuestion
	defer func() {
		if cause := recover(); cause != nil {
			answer = unanswered{asked.ID, fmt.Sprintf("panic: %v\n%s", cause, debug.Stack())}
		}
	}()
	if err := json.Unmarshal(line, &asked); err != nil {
		return unanswered{asked.ID, err.Error()}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var extenders []schedulerconfig.Extender
	if asked.Extender != nil {
		server, extender := asked.Extender.serve()
		defer server.Close()
		extenders = append(extenders, extender)
	}
	world, err := newGroupWorld(ctx, asked.Config, extenders)
	if err != nil {
		return unanswered{asked.ID, err.Error()}
	}
	defer world.sched.SchedulingQueue.Close()
	found := groupAnswer{ID: asked.ID}
	for number, changes := range asked.Steps {
		if err := world.step(ctx, changes); err != nil {
			return unanswered{asked.ID, fmt.Sprintf("step %d: %v", number, err)}
		}
		found.Want = append(found.Want, world.client.seen())
	}
	return found
}

// tickingClock goes on with each look at it: pods that come back from a cycle keep their order, as by a real clock.
type tickingClock struct {
	*clocktesting.FakeClock
}

func (c tickingClock) Now() time.Time {
	c.Step(time.Microsecond)
	return c.FakeClock.Now()
}

type groupWorld struct {
	client *groupClient
	hand   *byHand
	clock  *clocktesting.FakeClock
	sched  *scheduler.Scheduler
}

func newGroupWorld(ctx context.Context, text string, extenders []schedulerconfig.Extender) (*groupWorld, error) {
	made := &groupWorld{client: newGroupClient(), clock: clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))}
	made.hand = newByHand(made.client)
	read, err := profilesOf(text)
	if err != nil {
		return nil, err
	}
	recorders := profile.RecorderFactory(func(string) events.EventRecorderLogger { return &events.FakeRecorder{} })
	made.sched, err = scheduler.New(ctx, made.client, made.hand.factory, nil, recorders,
		scheduler.WithProfiles(read.Profiles...),
		scheduler.WithExtenders(extenders...),
		scheduler.WithPercentageOfNodesToScore(read.PercentageOfNodesToScore),
		scheduler.WithParallelism(1),
		scheduler.WithClock(tickingClock{made.clock}),
		scheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{byNameName: newByName, sortedPlacementsName: newSortedPlacements}),
	)
	if err == nil {
		made.sched.SchedulingQueue.Run(klog.FromContext(ctx))
	}
	return made, err
}

// step makes the changes, and lets the scheduler work until nothing is left to try, also after all backoffs.
func (w *groupWorld) step(ctx context.Context, changes []json.RawMessage) error {
	for _, raw := range changes {
		var change groupChange
		if err := json.Unmarshal(raw, &change); err != nil {
			return err
		}
		if err := w.change(change); err != nil {
			return err
		}
		w.clock.Step(time.Millisecond)
	}
	done := make(chan error, 1)
	go func() {
		err := w.work(ctx)
		if err == nil {
			w.endBackoffs()
			err = w.work(ctx)
		}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(stepPatience):
		return fmt.Errorf("it does not come to rest: %+v", *w.client.seen())
	}
}

func (w *groupWorld) change(change groupChange) error {
	if change.Drop != nil {
		object, err := readObject(change.Drop, true)
		if err != nil {
			return err
		}
		if pod, ok := object.(*v1.Pod); ok {
			w.client.forget(pod)
		}
		return w.hand.drop(object)
	}
	object, err := readObject(change.Put, true)
	if err != nil {
		return err
	}
	if group, ok := object.(*schedulingv1beta1.PodGroup); ok {
		if before, err := w.hand.get(object); err == nil {
			group.Status = before.(*schedulingv1beta1.PodGroup).Status // whoever changes the spec leaves it alone
		}
	}
	if err := w.hand.put(object); err != nil {
		return err
	}
	if claim, ok := object.(*resourceapi.ResourceClaim); ok {
		w.client.keep(claim)
	}
	return nil
}

func (w *groupWorld) work(ctx context.Context) error {
	for range mostCycles {
		if !w.ready() {
			return nil
		}
		w.sched.ScheduleOne(ctx)
		w.clock.Step(time.Millisecond)
		if err := w.settle(); err != nil {
			return err
		}
	}
	return fmt.Errorf("%d cycles and no end", mostCycles)
}

// endBackoffs lets a minute pass, after which every backoff is over, also of pods that wait for something to happen. The
// queue notices that beside the loop. It may need further looks at the clock, and those have to be short: after five
// minutes, it tries everything again.
func (w *groupWorld) endBackoffs() {
	w.clock.Step(time.Minute)
	for len(w.sched.SchedulingQueue.PodsInBackoffQ()) > 0 {
		time.Sleep(5 * time.Millisecond)
		w.clock.Step(time.Second)
	}
}

// ready says whether ScheduleOne would find something. Pod groups, and what failed by an error, are not tried before
// their backoff is over.
func (w *groupWorld) ready() bool {
	if len(w.sched.SchedulingQueue.PodsInActiveQ()) > 0 {
		return true
	}
	return slices.ContainsFunc(w.sched.SchedulingQueue.PodsInBackoffQ(), func(pod *v1.Pod) bool {
		return pod.Spec.SchedulingGroup == nil && w.client.reason(pod) != v1.PodReasonSchedulerError
	})
}

// settle waits for the binding cycles, which run beside the loop, and tells the scheduler what has become of its writes.
func (w *groupWorld) settle() error {
	until := time.Now().Add(stepPatience)
	patient := time.Now().Add(permitPatience)
	for !w.bindingIsOver(time.Now().Before(patient)) {
		if time.Now().After(until) {
			return fmt.Errorf("a binding cycle does not end")
		}
		time.Sleep(time.Millisecond)
	}
	if err := w.tellClaims(); err != nil {
		return err
	}
	for _, bound := range w.client.takeBound() {
		found, err := w.hand.get(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: bound.Namespace, Name: bound.Name}})
		if err != nil {
			return err
		}
		pod := found.(*v1.Pod).DeepCopy()
		pod.Spec.NodeName = bound.Node
		if err := w.hand.put(pod); err != nil {
			return err
		}
	}
	if err := w.tellNominations(); err != nil {
		return err
	}
	for name, condition := range w.client.takeConditions() {
		found, err := w.hand.get(&schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}})
		if err != nil {
			return err
		}
		group := found.(*schedulingv1beta1.PodGroup).DeepCopy()
		apimeta.SetStatusCondition(&group.Status.Conditions, condition)
		if err := w.hand.put(group); err != nil {
			return err
		}
	}
	return w.removeVictims()
}

// tellNominations shows the nominated nodes that were written. The queue goes by what the API says of a pod each time it
// comes back.
func (w *groupWorld) tellNominations() error {
	for name, node := range w.client.takeNominated() {
		found, err := w.hand.get(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}})
		if err != nil {
			continue // it is gone
		}
		pod := found.(*v1.Pod).DeepCopy()
		if pod.Spec.NodeName != "" || pod.Status.NominatedNodeName == node {
			continue
		}
		pod.Status.NominatedNodeName = node
		if err := w.hand.put(pod); err != nil {
			return err
		}
	}
	return nil
}

func (w *groupWorld) removeVictims() error {
	for _, name := range w.client.takeDeleted() {
		if err := w.hand.drop(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}); err != nil {
			return err
		}
	}
	return nil
}

// bindingIsOver says whether each assumed pod is bound, or waits on Permit. A pod that was allowed to go on may be among
// those that wait for a moment: as long as there is patience, none may be.
func (w *groupWorld) bindingIsOver(patient bool) bool {
	waiting := 0
	for _, one := range w.sched.Profiles {
		one.IterateOverWaitingPods(func(fwk.WaitingPod) { waiting++ })
		break // all profiles share them
	}
	return (waiting == 0 || !patient) && w.sched.Cache.Dump().AssumedPods.Len() == waiting+w.client.justBound()
}

// -- the client ----------------------------------------------------------------------------------------------------------

type placed struct {
	types.NamespacedName
	Node string
}

// groupClient remembers what is written, and can do nothing else; any other call is a nil pointer and shows itself.
type groupClient struct {
	kubernetes.Interface
	lock       sync.Mutex
	bound      map[string]string
	pods       map[string][3]string
	groups     map[string][3]string
	deleted    []string
	fresh      []placed
	conditions map[types.NamespacedName]metav1.Condition
	victims    []types.NamespacedName
	nominated  map[types.NamespacedName]string
	claims     map[string]*resourceapi.ResourceClaim
	// freshClaims are writes of claims that nobody was shown yet; writes counts all of them.
	freshClaims []*resourceapi.ResourceClaim
	writes      int
	conflicts   int
}

func newGroupClient() *groupClient {
	return &groupClient{
		bound: map[string]string{}, pods: map[string][3]string{}, groups: map[string][3]string{}, deleted: []string{},
		conditions: map[types.NamespacedName]metav1.Condition{}, claims: map[string]*resourceapi.ResourceClaim{},
		nominated: map[types.NamespacedName]string{},
	}
}

func (c *groupClient) seen() *groupWant {
	c.lock.Lock()
	defer c.lock.Unlock()
	slices.Sort(c.deleted)
	return &groupWant{maps.Clone(c.bound), maps.Clone(c.pods), maps.Clone(c.groups), slices.Clone(c.deleted), c.conflicts}
}

func (c *groupClient) forget(pod *v1.Pod) {
	c.lock.Lock()
	defer c.lock.Unlock()
	delete(c.bound, pod.Name)
	delete(c.pods, pod.Name)
}

func (c *groupClient) reason(pod *v1.Pod) string {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.pods[pod.Name][0]
}

func (c *groupClient) justBound() int {
	c.lock.Lock()
	defer c.lock.Unlock()
	return len(c.fresh)
}

// anyOrder has takeBound leave to chance what kube-scheduler leaves to chance: binding cycles run side by side, so the
// pods of a cycle are bound in any order. Its cache keeps the pods of a node in the order in which it saw them, and of
// two equal victims that have not started yet, the one that it saw first is spared.
var anyOrder bool

func (c *groupClient) takeBound() []placed {
	c.lock.Lock()
	defer c.lock.Unlock()
	found := c.fresh
	c.fresh = nil
	if anyOrder {
		rand.Shuffle(len(found), func(i, j int) { found[i], found[j] = found[j], found[i] })
		return found
	}
	slices.SortFunc(found, func(a, b placed) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return found
}

func (c *groupClient) takeConditions() map[types.NamespacedName]metav1.Condition {
	c.lock.Lock()
	defer c.lock.Unlock()
	found := c.conditions
	c.conditions = map[types.NamespacedName]metav1.Condition{}
	return found
}

func (c *groupClient) takeNominated() map[types.NamespacedName]string {
	c.lock.Lock()
	defer c.lock.Unlock()
	found := c.nominated
	c.nominated = map[types.NamespacedName]string{}
	return found
}

func (c *groupClient) takeDeleted() []types.NamespacedName {
	c.lock.Lock()
	defer c.lock.Unlock()
	found := c.victims
	c.victims = nil
	return found
}

type groupCore struct {
	corev1.CoreV1Interface
	to *groupClient
}

type groupPods struct {
	corev1.PodInterface
	namespace string
	to        *groupClient
}

type groupScheduling struct {
	schedulingclient.SchedulingV1beta1Interface
	to *groupClient
}

type groupGroups struct {
	schedulingclient.PodGroupInterface
	namespace string
	to        *groupClient
}

func (c *groupClient) CoreV1() corev1.CoreV1Interface { return groupCore{to: c} }

func (c *groupClient) SchedulingV1beta1() schedulingclient.SchedulingV1beta1Interface {
	return groupScheduling{to: c}
}

func (c groupCore) Pods(namespace string) corev1.PodInterface {
	return groupPods{namespace: namespace, to: c.to}
}

func (c groupCore) Events(string) corev1.EventInterface { return nil }

func (c groupScheduling) PodGroups(namespace string) schedulingclient.PodGroupInterface {
	return groupGroups{namespace: namespace, to: c.to}
}

func (p groupPods) Bind(_ context.Context, binding *v1.Binding, _ metav1.CreateOptions) error {
	p.to.lock.Lock()
	defer p.to.lock.Unlock()
	p.to.bound[binding.Name] = binding.Target.Name
	p.to.fresh = append(p.to.fresh, placed{types.NamespacedName{Namespace: p.namespace, Name: binding.Name}, binding.Target.Name})
	return nil
}

func (p groupPods) Patch(
	_ context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string,
) (*v1.Pod, error) {
	var written v1.Pod
	if err := json.Unmarshal(data, &written); err != nil {
		return nil, err
	}
	var fields struct {
		Status map[string]json.RawMessage `json:"status"`
	}
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	p.to.lock.Lock()
	defer p.to.lock.Unlock()
	if _, says := fields.Status["nominatedNodeName"]; says {
		p.to.nominated[types.NamespacedName{Namespace: p.namespace, Name: name}] = written.Status.NominatedNodeName
	}
	last := p.to.pods[name]
	for _, condition := range written.Status.Conditions {
		if condition.Type == v1.PodScheduled {
			last[0], last[1] = condition.Reason, condition.Message
			if strings.Contains(condition.Message, "got allocated elsewhere in the meantime") {
				p.to.conflicts++
			}
		}
	}
	if written.Status.NominatedNodeName != "" {
		last[2] = written.Status.NominatedNodeName
	}
	if last != ([3]string{}) {
		p.to.pods[name] = last
	}
	return &v1.Pod{}, nil
}

func (p groupPods) Delete(_ context.Context, name string, _ metav1.DeleteOptions) error {
	p.to.lock.Lock()
	defer p.to.lock.Unlock()
	p.to.deleted = append(p.to.deleted, name)
	p.to.victims = append(p.to.victims, types.NamespacedName{Namespace: p.namespace, Name: name})
	return nil
}

func (g groupGroups) Patch(
	_ context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string,
) (*schedulingv1beta1.PodGroup, error) {
	var written schedulingv1beta1.PodGroup
	if err := json.Unmarshal(data, &written); err != nil {
		return nil, err
	}
	g.to.lock.Lock()
	defer g.to.lock.Unlock()
	for _, condition := range written.Status.Conditions {
		last := g.to.groups[name]
		// A patch has only what is new of a condition.
		for i, text := range []string{string(condition.Status), condition.Reason, condition.Message} {
			if text != "" || i == 2 && condition.Status != "" {
				last[i] = text
			}
		}
		g.to.groups[name] = last
		condition.Status, condition.Reason, condition.Message = metav1.ConditionStatus(last[0]), last[1], last[2]
		g.to.conditions[types.NamespacedName{Namespace: g.namespace, Name: name}] = condition
	}
	return &written, nil
}

// -- one best node -------------------------------------------------------------------------------------------------------

const byNameName = "ByName"

// byName prefers nodes by their names, which end in a number: n7 before n3.
type byName struct{}

func newByName(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return byName{}, nil }

func (byName) Name() string { return byNameName }

func (byName) Score(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	var number int64
	if _, err := fmt.Sscanf(node.Node().Name, "n%d", &number); err != nil {
		return 0, fwk.AsStatus(err)
	}
	return number, nil
}

func (byName) ScoreExtensions() fwk.ScoreExtensions { return nil }

// ScorePlacement gives the highest number of its nodes.
func (b byName) ScorePlacement(
	ctx context.Context, _ fwk.PlacementCycleState, _ fwk.PodGroupInfo, placement *fwk.PodGroupAssignments,
) (int64, *fwk.Status) {
	var best int64
	for _, node := range placement.Nodes {
		number, status := b.Score(ctx, nil, nil, node)
		if !status.IsSuccess() {
			return 0, status
		}
		best = max(best, number)
	}
	return best, nil
}

func (byName) PlacementScoreExtensions() fwk.PlacementScoreExtensions { return nil }

// -- placements in a fixed order -----------------------------------------------------------------------------------------

const sortedPlacementsName = "SortedPlacements"

// sortedPlacements is upstream's TopologyPlacementGenerator, whose placements come in the order of a map, sorted by name.
type sortedPlacements struct{ fwk.PlacementGeneratePlugin }

func newSortedPlacements(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	made, err := topologyaware.New(ctx, args, handle, feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	return sortedPlacements{made}, err
}

func (sortedPlacements) Name() string { return sortedPlacementsName }

func (p sortedPlacements) GeneratePlacements(
	ctx context.Context, state fwk.PodGroupCycleState, group fwk.PodGroupInfo, parent *fwk.Placement,
) (*fwk.GeneratePlacementsResult, *fwk.Status) {
	found, status := p.PlacementGeneratePlugin.GeneratePlacements(ctx, state, group, parent)
	if status.IsSuccess() {
		slices.SortFunc(found.Placements, func(a, b *fwk.Placement) int { return strings.Compare(a.Name, b.Name) })
	}
	return found, status
}

package query

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	apiquery "github.com/tangram-dev/tangram/api/query"
)

// Source answers questions with all names in them; what a caller may not see is taken out
// afterwards. Answers are shared between callers and must not be changed. A source must not
// hold up scheduling: it holds the engine's lock for 10 ms at most at a time.
//
// internal/kube/answer implements it.
type Source interface {
	// Fleet is what there is, but for Scheduler.Holder and Version.
	Fleet() apiquery.Fleet
	// Why is about an object of a namespace whose pods the caller may list. Its words name
	// things, so it leaves out itself what the caller may not see. find may be nil.
	Why(ctx context.Context, kind, namespace, name string, see Sight, find FindPod) apiquery.Why
	// Explain is about a pod of such a namespace; a problem says why there is no answer.
	Explain(namespace, name string, see Sight) (out apiquery.Explain, problem string)
	// Usage is GPU hours summed by words of apiquery.UsageBy. visible is called once, with
	// all namespaces that occur, and says whose hours are told apart; the others are Hidden.
	Usage(by []string, visible func(namespaces []string) func(namespace string) bool) apiquery.Usage
	// Nodes are all nodes with devices, or those that changed after a version; 0: all.
	Nodes(since uint64) apiquery.Nodes
	// Queues are all queues, and the namespaces that have gangs in them or below.
	Queues() (queues apiquery.Queues, namespaces map[string][]string)
	// History is samples of the queues that a predicate names.
	History(shows func(queue string) bool) apiquery.History
	// Gangs are all gangs without members, in the order in which they start.
	Gangs() (at time.Time, items []apiquery.Gang)
	// Members are the gangs of a name, or of the pod of the name, with their members.
	Members(of apiquery.GangRef) []apiquery.Gang
	// Timeline are the events after a version, 0: all. Texts name no other gang.
	Timeline(since uint64) apiquery.Timeline
}

// Sight is what a caller may see by name: a Caller.
type Sight = interface {
	MayListPods(namespace string) bool
	MayListNodes() bool
	MayListQueues() bool
}

// FindPod reads a pod from the API server: informers do not have pods that ended; nil when
// there is none.
type FindPod = func(ctx context.Context, namespace, name string) *v1.Pod

package answer

import (
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"

	apiquery "github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/internal/kube/metrics"
	"github.com/tangram-dev/tangram/internal/kube/observe"
)

// Config is what answers are made of.
type Config struct {
	Reader Reader
	// What follows is read without the engine's lock.

	Clock     func() time.Time
	Pods      corelisters.PodLister
	Inventory Inventory
	Gate      Gate
	Timeline  *observe.Timeline
	Logger    klog.Logger
	Ages      Ages // how old answers may be; the zero value: they are always made anew
}

// Inventory is what is read of nodes' objects.
type Inventory interface {
	Levels() topology.Levels
	Troubles(node string) map[int]string
}

// Gate is what is known of pods and of this process.
type Gate interface {
	Owns(schedulerName string) bool
	Manages(*v1.Pod) bool
	// Leads: this process decides. Suspended: the API server could not be written to.
	Leads() bool
	Suspended() bool
}

// Ages is how old answers may be: however many callers ask, they are made once in that time.
type Ages struct {
	// Lists is for nodes, gangs, queues and the order of gangs. Order is how old the latter
	// two may be in an answer about one gang, while they are made anew.
	Lists, Order time.Duration
	// Reasons is for why one gang waits or one pod is where it is, State for metrics.
	Reasons, State time.Duration
}

// DefaultAges are the scheduler's. A replica has none: its clock stands still while it is
// stepped.
func DefaultAges() Ages {
	return Ages{Lists: time.Second, Order: 5 * time.Second, Reasons: time.Second, State: 2 * time.Second}
}

// Answers answers questions. It is safe for concurrent use.
type Answers struct {
	Config
	// foreseer says when gangs start, by a forecast; nil: nothing does.
	foreseer atomic.Pointer[Foreseer]

	// Each picture has a lock of its own: drawing takes the engine's lock many times.
	nodes   nodePicture
	gangs   picture[shownGangs]
	queues  picture[shownQueues]
	turns   picture[turnOrder]
	state   picture[metrics.State]
	history history
	kept    kept // used under the engine's lock
}

// New returns answers without any that were made before.
func New(c Config) *Answers { return &Answers{Config: c} }

// How much is looked at under the lock at a time.
const (
	nodesAtOnce = 64
	gangsAtOnce = 256
)

// lookFor looks for a caller, who is charged for it.
func (a *Answers) lookFor(see Sight, what string, f func(*View)) {
	waited, held := a.Reader.Look(what, f)
	if p, ok := see.(Payer); ok {
		p.Charge(waited, held)
	}
}

// look looks for a list that is shared by callers.
func (a *Answers) look(f func(*View)) { a.Reader.Look("query", f) }

// Sight is what a caller may see by name: query.Caller.
type Sight = interface {
	MayListPods(namespace string) bool
	MayListNodes() bool
	MayListQueues() bool
}

// Payer is a Sight that is told for how long the engine's lock was waited for and held for
// it.
type Payer interface {
	Charge(waited, held time.Duration)
}

// Timeline are the events after a version, the oldest first; 0: all that are remembered.
// Texts name no other gang.
func (a *Answers) Timeline(since uint64) apiquery.Timeline { return a.Config.Timeline.After(since) }

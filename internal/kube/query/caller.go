package query

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/util/workqueue"
)

// Caller is who asks, and what they may list. The API server is asked (its answers are kept
// for ten seconds); where it cannot be asked, the whole question fails.
type Caller interface {
	User() string
	Sight
}

// Rights are what access.Guard answers about a user.
type Rights interface {
	MayList(ctx context.Context, who user.Info, group, resource, namespace string) (bool, error)
}

// queueGroups are the API groups whose queues Tangram reads: who may list one of them may
// see all queues.
var queueGroups = []string{"scheduling.volcano.sh", "scheduling.run.ai"}

// caller asks each right once for a question.
type caller struct {
	ctx    context.Context
	who    user.Info
	rights Rights
	// charge is told for how long the engine's lock was held; may be nil.
	charge func(held time.Duration)
	spent  *timing // what the question's time goes into

	mu    sync.Mutex
	known map[right]bool
	err   error
}

// right is a resource in a namespace, or in all.
type right struct{ group, resource, namespace string }

func newCaller(ctx context.Context, who user.Info, rights Rights) *caller {
	return &caller{ctx: ctx, who: who, rights: rights, known: map[right]bool{}, spent: &timing{began: time.Now()}}
}

// User is the caller's name.
func (c *caller) User() string { return c.who.GetName() }

// Charge tells for how long the engine's lock was waited for and held for the caller.
func (c *caller) Charge(waited, held time.Duration) {
	c.spent.add(&c.spent.lock, waited)
	c.spent.add(&c.spent.held, held)
	if c.charge != nil {
		c.charge(held)
	}
}

// MayListNodes implements Caller.
func (c *caller) MayListNodes() bool { return c.may(right{resource: "nodes"}) }

// MayListQueues implements Caller.
func (c *caller) MayListQueues() bool {
	return slices.ContainsFunc(queueGroups, func(group string) bool { return c.may(right{group: group, resource: "queues"}) })
}

// MayListPods implements Caller. Most who may list pods of many namespaces may list those
// of all, which is one question.
func (c *caller) MayListPods(namespace string) bool {
	return c.may(right{resource: "pods"}) || c.may(right{resource: "pods", namespace: namespace})
}

const askAtOnce = 16 // how many namespaces the API server is asked about at the same time

// prefetch asks about many namespaces at once.
func (c *caller) prefetch(namespaces []string) {
	if len(namespaces) == 0 || c.may(right{resource: "pods"}) {
		return
	}
	workqueue.ParallelizeUntil(c.ctx, askAtOnce, len(namespaces), func(i int) {
		c.may(right{resource: "pods", namespace: namespaces[i]})
	})
}

// askAhead asks for rights that nearly every answer depends on, while others are being asked
// for. They are the same for all questions, so a caller who invents names causes no further
// question to the API server. done waits for the answers.
func (c *caller) askAhead() (done func()) {
	rights := []right{{resource: "pods"}, {resource: "nodes"}}
	for _, group := range queueGroups {
		rights = append(rights, right{group: group, resource: "queues"})
	}
	var asked sync.WaitGroup
	for _, r := range rights {
		asked.Go(func() { c.may(r) })
	}
	return asked.Wait
}

func (c *caller) may(r right) bool {
	c.mu.Lock()
	may, known := c.known[r]
	failed := c.err != nil
	c.mu.Unlock()
	if known || failed {
		return may
	}
	began := time.Now()
	may, err := c.rights.MayList(c.ctx, c.who, r.group, r.resource, r.namespace)
	c.spent.add(&c.spent.access, time.Since(began))
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.err = err
		return false
	}
	c.known[r] = may
	return may
}

// failed is why the API server could not be asked, if so.
func (c *caller) failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

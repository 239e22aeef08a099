package dra

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tangram-dev/tangram/internal/dialect"
)

// Changes are what a Book tells: that something is to be looked at again.
type Changes struct {
	// Node: the GPUs that a node publishes changed; Matched: what selectors match there.
	Node, Matched func(node string)
	Evaluated     func(key string) // the selectors with a key (Wait.Selectors) were evaluated
	Claim         func(key string) // a claim came, changed or went; the key is namespace/name
	Classes       func()           // a DeviceClass came, changed or went
}

// Book reads ResourceSlices, ResourceClaims and DeviceClasses from a scheduler's informers.
// Its methods are safe for concurrent use, and wait for no other lock than its own. A nil
// *Book is that of a cluster whose claims are not followed: Published, Nodes, ClaimsGPUs and
// Decides say that there is nothing.
type Book struct {
	slices  cache.Indexer
	claims  resourcelisters.ResourceClaimLister
	classes resourcelisters.DeviceClassLister
	pods    corelisters.PodLister
	synced  []cache.InformerSynced
	matcher *Matcher

	mu sync.Mutex
	// What follows is guarded by mu.

	// users are the pods that name a claim, by namespace/name of the claim.
	users map[string]map[types.UID]*v1.Pod
	// firsts are the oldest of them that wait. Kept, since many pods may share a claim.
	firsts map[string]*v1.Pod
	// names are the claims that a pod names.
	names map[types.UID][]string
	// located is where claims' devices were last seen: a restarted driver publishes none.
	located map[deviceID]location
	// turns is how often pods with alternatives (firstAvailable) have moved on to the next.
	turns map[types.UID]int
}

type deviceID struct{ driver, pool, name string }

// location is a device and the node that has it.
type location struct {
	node   string
	device dialect.Published
}

const (
	byNode = "tangram.dev/node"
	byPool = "tangram.dev/pool"
)

// New reads from a scheduler's informers, which are not started yet.
func New(factory informers.SharedInformerFactory, tell Changes) (*Book, error) {
	api := factory.Resource().V1()
	slices := api.ResourceSlices().Informer()
	if err := slices.AddIndexers(cache.Indexers{byNode: func(obj any) ([]string, error) {
		if s, ok := obj.(*resourceapi.ResourceSlice); ok && dialect.IsGPUDriver(s.Spec.Driver) && s.Spec.NodeName != nil {
			return []string{*s.Spec.NodeName}, nil
		}
		return nil, nil
	}, byPool: func(obj any) ([]string, error) {
		if s, ok := obj.(*resourceapi.ResourceSlice); ok && dialect.IsGPUDriver(s.Spec.Driver) && s.Spec.NodeName != nil {
			return []string{s.Spec.Driver + "/" + s.Spec.Pool.Name}, nil
		}
		return nil, nil
	}}); err != nil {
		return nil, err
	}
	b := &Book{
		slices: slices.GetIndexer(), claims: api.ResourceClaims().Lister(), classes: api.DeviceClasses().Lister(), pods: factory.Core().V1().Pods().Lister(),
		users: map[string]map[types.UID]*v1.Pod{}, firsts: map[string]*v1.Pod{}, names: map[types.UID][]string{}, located: map[deviceID]location{},
		turns: map[types.UID]int{},
	}
	b.matcher = newMatcher(b.Published, b.Nodes, tell.Evaluated, tell.Matched)
	handlers := []struct {
		informer cache.SharedIndexInformer
		look     func(obj any)
	}{
		{slices, func(obj any) {
			if s, ok := obj.(*resourceapi.ResourceSlice); ok && dialect.IsGPUDriver(s.Spec.Driver) && s.Spec.NodeName != nil {
				b.matcher.Stale(*s.Spec.NodeName)
				tell.Node(*s.Spec.NodeName)
			}
		}},
		{api.ResourceClaims().Informer(), func(obj any) {
			if c, ok := obj.(*resourceapi.ResourceClaim); ok {
				tell.Claim(c.Namespace + "/" + c.Name)
			}
		}},
		{api.DeviceClasses().Informer(), func(any) { tell.Classes() }},
	}
	for _, h := range handlers {
		look := func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			h.look(obj)
		}
		r, err := h.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: look, UpdateFunc: func(_, obj any) { look(obj) }, DeleteFunc: look,
		})
		if err != nil {
			return nil, err
		}
		b.synced = append(b.synced, r.HasSynced)
	}
	return b, nil
}

// Run evaluates selectors until the context ends.
func (b *Book) Run(ctx context.Context) { b.matcher.Run(ctx) }

// Work evaluates one set of selectors, for tests that do without a goroutine.
func (b *Book) Work(ctx context.Context) bool { return b.matcher.Work(ctx) }

// Synced are what to wait for.
func (b *Book) Synced() []cache.InformerSynced { return b.synced }

// Published are the GPUs that a node's ResourceSlices publish.
func (b *Book) Published(node string) []dialect.Published {
	if b == nil {
		return nil
	}
	objs, err := b.slices.ByIndex(byNode, node)
	if err != nil || len(objs) == 0 {
		return nil
	}
	list := make([]*resourceapi.ResourceSlice, 0, len(objs))
	for _, obj := range objs {
		list = append(list, obj.(*resourceapi.ResourceSlice))
	}
	slices.SortFunc(list, func(a, b *resourceapi.ResourceSlice) int { return strings.Compare(a.Name, b.Name) })
	return dialect.Publish(list)
}

// Nodes are the names of all nodes that publish GPUs.
func (b *Book) Nodes() []string {
	if b == nil {
		return nil
	}
	return b.slices.ListIndexFuncValues(byNode)
}

// Backed are the extended resources of whole GPUs for which a DeviceClass stands.
func (b *Book) Backed() (out []v1.ResourceName) {
	classes, _ := b.classes.List(labels.Everything()) // the store knows no error
	for _, c := range classes {
		if name := c.Spec.ExtendedResourceName; name != nil && dialect.IsWholeResource(v1.ResourceName(*name)) && !slices.Contains(out, v1.ResourceName(*name)) {
			out = append(out, v1.ResourceName(*name))
		}
	}
	slices.Sort(out)
	return out
}

// locate finds a device that a claim holds: where it is published, else where it was.
func (b *Book) locate(r *resourceapi.DeviceRequestAllocationResult, nodes ...string) (location, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	id := deviceID{r.Driver, r.Pool, r.Device}
	try := func(node string) bool {
		for _, p := range b.Published(node) {
			if p.Driver == id.driver && p.Pool == id.pool && p.Device.Name == id.name {
				b.located[id] = location{node, p}
				return true
			}
		}
		return false
	}
	if at, ok := b.located[id]; ok && try(at.node) {
		return b.located[id], true
	}
	for _, node := range append(nodes, r.Pool) { // drivers name pools after nodes
		if node != "" && try(node) {
			return b.located[id], true
		}
	}
	some, _ := b.slices.ByIndex(byPool, r.Driver+"/"+r.Pool) // the index is there
	for _, obj := range some {
		if try(*obj.(*resourceapi.ResourceSlice).Spec.NodeName) {
			break
		}
	}
	at, ok := b.located[id]
	return at, ok
}

// Set takes note of a pod that may name claims, and returns the keys of the claims that it
// names now or named before.
func (b *Book) Set(pod *v1.Pod) []string { return b.use(pod, b.Named(pod)) }

// Drop forgets a pod that ended, and returns the keys of the claims that it named.
func (b *Book) Drop(pod *v1.Pod) []string {
	b.mu.Lock()
	delete(b.turns, pod.UID)
	b.mu.Unlock()
	return b.use(pod, nil)
}

// MoveOn makes a pod ask for the next of its alternatives.
func (b *Book) MoveOn(pod *v1.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turns[pod.UID]++
}

func (b *Book) turn(uid types.UID) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.turns[uid]
}

func (b *Book) use(pod *v1.Pod, keys []string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.names[pod.UID]
	for _, key := range before {
		if !slices.Contains(keys, key) {
			if delete(b.users[key], pod.UID); len(b.users[key]) == 0 {
				delete(b.users, key)
			}
			b.keepFirst(key, pod, false)
		}
	}
	for _, key := range keys {
		if b.users[key] == nil {
			b.users[key] = map[types.UID]*v1.Pod{}
		}
		b.users[key][pod.UID] = pod
		b.keepFirst(key, pod, waits(pod))
	}
	if delete(b.names, pod.UID); len(keys) > 0 {
		b.names[pod.UID] = keys
	}
	all := slices.Concat(before, keys)
	slices.Sort(all)
	return slices.Compact(all)
}

// Users are the pods that name a claim, oldest first.
func (b *Book) Users(key string) []*v1.Pod {
	b.mu.Lock()
	out := slices.Collect(maps.Values(b.users[key]))
	b.mu.Unlock()
	slices.SortFunc(out, byAge)
	return out
}

func byAge(x, y *v1.Pod) int {
	return cmp.Or(x.CreationTimestamp.Time.Compare(y.CreationTimestamp.Time), strings.Compare(x.Name, y.Name), cmp.Compare(x.UID, y.UID))
}

// waits says whether a claim may be allocated with a pod.
func waits(p *v1.Pod) bool { return p.Spec.NodeName == "" && !ended(p) && p.DeletionTimestamp == nil }

// keepFirst keeps the first of a claim's users, one of which has changed or gone, and waits
// or does not. It looks at the others only when the first is not to be first any more.
func (b *Book) keepFirst(key string, pod *v1.Pod, waiting bool) {
	offer := func(p *v1.Pod) {
		if f := b.firsts[key]; f == nil || f.UID == p.UID || byAge(p, f) < 0 {
			b.firsts[key] = p
		}
	}
	if waiting {
		offer(pod)
	} else if same(b.firsts[key], pod) {
		delete(b.firsts, key)
		for _, p := range b.users[key] {
			if waits(p) {
				offer(p)
			}
		}
	}
}

// First is the pod with which a shared claim is allocated: the oldest that waits; nil when
// none does.
func (b *Book) First(key string) *v1.Pod {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.firsts[key]
}

// AllUsers are all pods that name a claim, in no particular order.
func (b *Book) AllUsers() []*v1.Pod {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[types.UID]*v1.Pod{}
	for _, pods := range b.users {
		maps.Copy(all, pods)
	}
	return slices.Collect(maps.Values(all))
}

// Claim is a claim by namespace/name; nil when there is none.
func (b *Book) Claim(key string) *resourceapi.ResourceClaim {
	namespace, name, _ := strings.Cut(key, "/")
	c, err := b.claims.ResourceClaims(namespace).Get(name)
	if err != nil { // the store knows no other error than "not found"
		return nil
	}
	return c
}

// claimNames are the claims that a pod names or was given, as far as they are known.
func claimNames(pod *v1.Pod) (out []string) {
	for i := range pod.Spec.ResourceClaims {
		if name, _ := claimName(pod, &pod.Spec.ResourceClaims[i]); name != "" {
			out = append(out, name)
		}
	}
	if s := pod.Status.ExtendedResourceClaimStatus; s != nil && s.ResourceClaimName != "" {
		out = append(out, s.ResourceClaimName)
	}
	return out
}

// claimName is the claim behind an entry of a pod; not made: it does not exist yet. A pod
// may do without: then both are zero.
func claimName(pod *v1.Pod, entry *v1.PodResourceClaim) (name string, notMade bool) {
	if entry.ResourceClaimName != nil {
		return *entry.ResourceClaimName, false
	}
	for _, s := range pod.Status.ResourceClaimStatuses {
		if s.Name == entry.Name {
			if s.ResourceClaimName == nil {
				return "", false
			}
			return *s.ResourceClaimName, false
		}
	}
	return "", true
}

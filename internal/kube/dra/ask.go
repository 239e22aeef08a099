package dra

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// Ask is what a pod's claims mean for where it may go. Values are not changed.
type Ask struct {
	By    *dialect.ByClaim // what has to be allocated, or, for a bound pod, what it holds; nil: no GPU
	Key   string           // equal for pods whose claims nodes treat alike
	Loose bool             // the allocator, not the plan, chooses which devices of the planned node
	// With are other users of a claim that the bound pod is counted for: all free it.
	With         []*v1.Pod
	Alternatives bool  // this is one of several that some node could ever fulfil
	Charge       int64 // what claims hold that no other pod is charged for, in thousandths of a GPU

	needs []need
	on    []available // where claims are available that are allocated already
}

// need is one request of a claim.
type need struct {
	set   *Set
	class string
	count int
	part  model.Part
	match []string // attributes of which all devices must have the same value
}

// available is where an allocated claim is: on the nodes of a selector, or on the one that
// has its GPUs.
type available struct {
	claim    string
	selector *nodeaffinity.NodeSelector
	node     string
}

// A Wait is why a pod's claims cannot be judged yet. It passes without an edit of the pod.
type Wait struct {
	Why       string
	Selectors string // the key of selectors that are being evaluated; empty: it is not about any
}

func (w *Wait) Error() string { return w.Why }

// AwaitedSelectors is the key of the selectors that an error says are being evaluated;
// empty when it says something else.
func AwaitedSelectors(err error) string {
	if w := (*Wait)(nil); errors.As(err, &w) {
		return w.Selectors
	}
	return ""
}

// IsWait says whether an error passes without an edit of the pod.
func IsWait(err error) bool { var w *Wait; return errors.As(err, &w) }

// maxNamed is how many cards a request may name: comparing a card with them costs time.
const maxNamed = 512

// Concerns says whether the engine has to look at a pod's claims before it is known whether
// the pod asks for GPUs, or knows that it does. It waits for no lock.
func (b *Book) Concerns(pod *v1.Pod) bool {
	if b.implicit(pod) != nil {
		return true
	}
	for i := range pod.Spec.ResourceClaims {
		name, notMade := claimName(pod, &pod.Spec.ResourceClaims[i])
		if notMade {
			return true
		}
		if name == "" {
			continue
		}
		c := b.Claim(pod.Namespace + "/" + name)
		if c == nil {
			return true
		}
		if c.Status.Allocation != nil {
			if slices.ContainsFunc(c.Status.Allocation.Devices.Results, func(r resourceapi.DeviceRequestAllocationResult) bool { return dialect.IsGPUDriver(r.Driver) }) {
				return true
			}
			continue
		}
		if gpus, missing := b.asksGPUs(c); gpus || missing != "" {
			return true
		}
	}
	return false
}

// asksGPUs says whether a claim's requests ask for GPUs, or which DeviceClass is missing.
func (b *Book) asksGPUs(c *resourceapi.ResourceClaim) (gpus bool, missing string) {
	for i := range c.Spec.Devices.Requests {
		for _, o := range options(&c.Spec.Devices.Requests[i]) {
			if class, err := b.classes.Get(o.class); err != nil {
				return false, o.class
			} else if ofGPUs(class) && !o.admin {
				return true, ""
			}
		}
	}
	return false, ""
}

// ClaimsGPUs is the field by which a pod asks for GPUs, or has them, through a claim; empty
// when it does not. The error is a Wait: a claim or a class is not there.
func (b *Book) ClaimsGPUs(pod *v1.Pod) (field string, err error) {
	if b == nil {
		return "", nil
	}
	for i := range pod.Spec.ResourceClaims {
		at := fmt.Sprintf("spec.resourceClaims[%d]", i)
		name, notMade := claimName(pod, &pod.Spec.ResourceClaims[i])
		if notMade {
			return "", &Wait{Why: at + ": no ResourceClaim has been made for it yet"}
		}
		if name == "" {
			continue
		}
		c := b.Claim(pod.Namespace + "/" + name)
		if c == nil {
			return "", &Wait{Why: fmt.Sprintf("%s: ResourceClaim %q does not exist", at, name)}
		}
		if a := c.Status.Allocation; a != nil && slices.ContainsFunc(a.Devices.Results, func(r resourceapi.DeviceRequestAllocationResult) bool {
			return dialect.IsGPUDriver(r.Driver) && (r.AdminAccess == nil || !*r.AdminAccess)
		}) {
			return at, nil
		}
		if gpus, missing := b.asksGPUs(c); gpus {
			return at, nil
		} else if missing != "" {
			return "", &Wait{Why: fmt.Sprintf("%s: ResourceClaim %q: DeviceClass %q does not exist", at, name, missing)}
		}
	}
	return "", nil
}

// Decides says whether the GPUs of a pod come, or may come, by claims on a node: then the
// plan alone decides where the pod goes.
func (b *Book) Decides(pod *v1.Pod, node string) bool {
	return b != nil && (len(pod.Spec.ResourceClaims) > 0 || len(b.Backed()) > 0 && len(b.Published(node)) > 0)
}

// ofGPUs says whether a class is of GPUs: its selectors name a GPU driver, or it stands for
// an extended resource of GPUs.
func ofGPUs(class *resourceapi.DeviceClass) bool {
	if name := class.Spec.ExtendedResourceName; name != nil && dialect.IsWholeResource(v1.ResourceName(*name)) {
		return true
	}
	return slices.ContainsFunc(class.Spec.Selectors, func(s resourceapi.DeviceSelector) bool {
		return s.CEL != nil && dialect.NamesGPUDriver(s.CEL.Expression)
	})
}

// option is one way to fulfil a request: the only one, or one of firstAvailable.
type option struct {
	name, class string
	selectors   []resourceapi.DeviceSelector
	mode        resourceapi.DeviceAllocationMode
	count       int64
	capacity    *resourceapi.CapacityRequirements
	admin       bool
}

func options(r *resourceapi.DeviceRequest) (out []option) {
	if e := r.Exactly; e != nil {
		return []option{{r.Name, e.DeviceClassName, e.Selectors, e.AllocationMode, e.Count, e.Capacity, e.AdminAccess != nil && *e.AdminAccess}}
	}
	for _, s := range r.FirstAvailable {
		out = append(out, option{r.Name + "/" + s.Name, s.DeviceClassName, s.Selectors, s.AllocationMode, s.Count, s.Capacity, false})
	}
	return out
}

// Ask reads what a pod's claims mean; nil when it has none that matter here. The error is a
// Wait, or names the field that is wrong.
func (b *Book) Ask(pod *v1.Pod) (*Ask, error) {
	if pod.Spec.NodeName != "" {
		return b.held(pod), nil
	}
	if err := b.implicit(pod); err != nil {
		return nil, err
	}
	if len(pod.Spec.ResourceClaims) == 0 {
		return nil, nil
	}
	a := &Ask{}
	field := ""
	for i := range pod.Spec.ResourceClaims {
		entry := &pod.Spec.ResourceClaims[i]
		at := fmt.Sprintf("spec.resourceClaims[%d]", i)
		name, notMade := claimName(pod, entry)
		if notMade {
			template := ""
			if entry.ResourceClaimTemplateName != nil {
				template = *entry.ResourceClaimTemplateName
			}
			return nil, &Wait{Why: fmt.Sprintf("%s: no ResourceClaim has been made yet from ResourceClaimTemplate %q", at, template)}
		}
		if name == "" {
			continue
		}
		key := pod.Namespace + "/" + name
		c := b.Claim(key)
		switch {
		case c == nil:
			return nil, &Wait{Why: fmt.Sprintf("%s: ResourceClaim %q does not exist", at, name)}
		case c.DeletionTimestamp != nil:
			return nil, &Wait{Why: fmt.Sprintf("%s: ResourceClaim %q is being deleted", at, name)}
		case c.Status.Allocation != nil:
			if err := a.allocated(b, pod, c); err != nil {
				return nil, fmt.Errorf("%s: %w", at, err)
			}
			continue
		}
		before := len(a.needs)
		if err := b.read(a, pod, c); err != nil {
			if IsWait(err) {
				return nil, &Wait{Why: at + ": " + err.Error(), Selectors: AwaitedSelectors(err)}
			}
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		if len(a.needs) > before {
			field = cmp.Or(field, at)
			if first := b.First(key); entry.ResourceClaimName != nil && first != nil && first.UID != pod.UID {
				if g := pod.Labels[names.LabelGang]; g != "" && g == first.Labels[names.LabelGang] {
					return nil, fmt.Errorf("%s: members of gang %q share ResourceClaim %q, which is not allocated: give each a claim of its own", at, g, name)
				}
				return nil, &Wait{Why: fmt.Sprintf("%s: ResourceClaim %q is shared and is allocated with pod %q, which comes first", at, name, first.Name)}
			}
		}
	}
	if len(a.needs)+len(a.on) == 0 {
		return nil, nil
	}
	if len(a.needs) > 0 {
		if err := a.request(field); err != nil {
			return nil, err
		}
	}
	a.key()
	return a, nil
}

// allocated takes note of a claim that is allocated already.
func (a *Ask) allocated(b *Book, pod *v1.Pod, c *resourceapi.ResourceClaim) error {
	if s := c.Status.Allocation.NodeSelector; s != nil {
		selector, err := nodeaffinity.NewNodeSelector(s)
		if err != nil {
			return fmt.Errorf("ResourceClaim %q: status.allocation.nodeSelector: %w", c.Name, err)
		}
		a.on = append(a.on, available{claim: c.Name, selector: selector})
	}
	h := b.Holds(c.Status.Allocation)
	if !h.Empty() {
		a.on = append(a.on, available{claim: c.Name, node: h.Node})
	}
	if other := b.Carrier(c, &h, never); !h.Empty() && (other == nil || other.UID == pod.UID) {
		a.Charge += int64(len(h.Whole)) * model.FullMilli
		for _, p := range h.Parts {
			a.Charge += int64(max(p.Milli, p.MemoryMilli))
		}
	}
	return nil
}

// read adds the requests of a claim that ask for GPUs.
func (b *Book) read(a *Ask, pod *v1.Pod, c *resourceapi.ResourceClaim) error {
	devices := &c.Spec.Devices
	for i := range devices.Requests {
		r := &devices.Requests[i]
		n, several, err := b.choose(pod, r)
		if err != nil {
			return fmt.Errorf("ResourceClaim %q: request %q: %w", c.Name, r.Name, err)
		}
		if n == nil {
			continue
		}
		a.Alternatives = a.Alternatives || several
		if slices.ContainsFunc(options(r), func(o option) bool { return o.mode == resourceapi.DeviceAllocationModeAll }) {
			a.Loose = true
		}
		for _, k := range devices.Constraints {
			if len(k.Requests) > 0 && !slices.ContainsFunc(k.Requests, func(name string) bool { return name == r.Name || strings.HasPrefix(name, r.Name+"/") }) {
				continue
			}
			a.Loose = true
			if k.MatchAttribute != nil {
				n.match = append(n.match, string(*k.MatchAttribute))
			}
		}
		a.needs = append(a.needs, *n)
	}
	return nil
}

// choose reads one request; nil when it asks for no GPU to hold. Of alternatives those count
// that some node could ever fulfil, several says whether there are; a pod begins with the
// first of them, and moves on while it waits (MoveOn): what is free now only the planner
// knows.
func (b *Book) choose(pod *v1.Pod, r *resourceapi.DeviceRequest) (n *need, several bool, err error) {
	all := options(r)
	var possible []*need
	for _, o := range all {
		class, err := b.classes.Get(o.class)
		if err != nil {
			return nil, false, &Wait{Why: fmt.Sprintf("DeviceClass %q does not exist", o.class)}
		}
		if o.admin || !ofGPUs(class) {
			if len(all) > 1 {
				return nil, false, fmt.Errorf("firstAvailable: GPUs and other devices as alternatives")
			}
			return nil, false, nil
		}
		one, err := b.need(pod, class, &o)
		if err != nil {
			return nil, false, err
		}
		if n == nil {
			n = one
		}
		if len(all) > 1 && one.possible() {
			possible = append(possible, one)
		}
	}
	if len(possible) > 0 {
		n = possible[b.turn(pod.UID)%len(possible)]
	}
	return n, len(possible) > 1, nil
}

// need reads one way to fulfil a request for GPUs.
func (b *Book) need(pod *v1.Pod, class *resourceapi.DeviceClass, o *option) (*need, error) {
	expressions, ok := expressionsOf(slices.Concat(class.Spec.Selectors, o.selectors))
	if !ok {
		return nil, fmt.Errorf("selectors: only CEL is understood")
	}
	owner := pod.Namespace
	if len(o.selectors) == 0 {
		owner = "" // the class alone: administrators write those
	}
	set := b.matcher.Want(owner, expressions)
	known, problem := set.Known()
	if !known {
		return nil, &Wait{Why: "its selectors are being evaluated", Selectors: set.key}
	}
	n := &need{set: set, class: class.Name, count: int(min(max(1, o.count), model.MaxDevices+1))}
	switch sum := set.summary(); {
	case !sum.any && problem != nil:
		return nil, fmt.Errorf("selectors: %w", problem)
	case sum.cards > 0 && sum.shared:
		n.part = shareAsked(o)
	case sum.cards > 0 && o.mode == resourceapi.DeviceAllocationModeAll:
		n.count = sum.cards
	case sum.cards == 0 && sum.profile != "":
		n.part = model.Part{Kind: model.Slice, Profile: sum.profile}
	}
	return n, nil
}

// shareAsked is what an option asks for of a device that several claims may have: all of
// it, unless it says how much memory, and perhaps how many cores.
func shareAsked(o *option) model.Part {
	return share(func(want string) (resource.Quantity, bool) {
		if o.capacity != nil {
			for name, q := range o.capacity.Requests {
				if string(name[strings.LastIndex(string(name), "/")+1:]) == want {
					return q, true
				}
			}
		}
		return resource.Quantity{}, false
	})
}

// possible says whether some node could ever fulfil a need.
func (n *need) possible() bool {
	found := false
	n.set.each(func(_ string, m *Matched) { found = found || n.on(m) >= n.count })
	return found
}

// on is how many of its devices a need finds among the matched ones of a node, whoever has
// them: of whole devices those that share the attributes asked for.
func (n *need) on(m *Matched) int {
	if m == nil {
		return 0
	}
	switch n.part.Kind {
	case model.Slice:
		count := 0
		for i := range m.Parts {
			if m.Parts[i].Profile == n.part.Profile {
				count++
			}
		}
		return count
	case model.Share:
		return len(m.Whole) * model.MaxDevices // as many as fit: amounts are the ledger's
	}
	most := len(m.Whole)
	for _, attribute := range n.match {
		groups, largest := map[string]int{}, 0
		for i := range m.All {
			if value, ok := m.All[i].Value(attribute); ok && m.All[i].Whole() {
				groups[value]++
				largest = max(largest, groups[value])
			}
		}
		most = min(most, largest)
	}
	return most
}

// request makes one request of all needs.
func (a *Ask) request(field string) error {
	by := &dialect.ByClaim{Vendor: model.NVIDIA, Field: field}
	for i, n := range a.needs {
		if n.part.Kind != a.needs[0].part.Kind {
			return fmt.Errorf("%s: whole GPUs, MIG devices and shares in the claims of one pod", field)
		}
		if n.set != a.needs[0].set {
			a.Loose = true
		}
		by.Containers = append(by.Containers, model.Container{Name: fmt.Sprintf("claim-%d", i), Resource: n.class, Count: n.count, Part: n.part})
	}
	if a.needs[0].part.Kind != model.Slice {
		by.UseUUIDs = a.named()
	}
	a.By = by
	return nil
}

// named are the cards that match, if on some node only some cards do; more than can be
// named are left to the allocator.
func (a *Ask) named() (out []string) {
	partial := false
	for _, n := range a.needs {
		sum := n.set.summary()
		partial = partial || sum.partial
		out = append(out, sum.named...)
	}
	if !partial {
		return nil
	}
	slices.Sort(out)
	out = slices.Compact(out)
	if len(out) > maxNamed {
		a.Loose = true
		return nil
	}
	return out
}

// key names everything that decides where the pod may go.
func (a *Ask) key() {
	var b strings.Builder
	fmt.Fprintf(&b, "loose=%v", a.Loose)
	for _, n := range a.needs {
		fmt.Fprintf(&b, "|%q %d %v %q %q", n.class, n.count, n.part, n.set.key, n.match)
	}
	for _, o := range a.on {
		fmt.Fprintf(&b, "|on %q", o.claim)
	}
	a.Key = b.String()
}

// May says why a node does not take a pod with these claims, whatever runs there; nil when
// it does.
func (a *Ask) May(node *v1.Node) *explain.Refusal {
	for _, o := range a.on {
		if o.selector != nil && !o.selector.Match(node) || o.node != "" && o.node != node.Name {
			return &explain.Refusal{Code: explain.Unselected, Detail: fmt.Sprintf("ResourceClaim %q, which is allocated elsewhere,", o.claim)}
		}
	}
	for i := range a.needs {
		n := &a.needs[i]
		if has := n.on(n.set.On(node.Name)); has < n.count {
			return &explain.Refusal{Code: explain.WrongDevice, Need: int64(n.count), Best: int64(has), Detail: "DeviceClass " + n.class + " and the claim's selectors"}
		}
	}
	return nil
}

// Uses says whether a claim was allocated already when this was asked.
func (a *Ask) Uses(claim string) bool {
	return a != nil && slices.ContainsFunc(a.on, func(o available) bool { return o.claim == claim })
}

// held is what a bound pod's claims hold; nil when that is no GPU, or when other pods are
// counted for it.
func (b *Book) held(pod *v1.Pod) *Ask {
	by := &dialect.ByClaim{Vendor: model.NVIDIA, Field: "spec.resourceClaims"}
	var with []*v1.Pod
	b.carried(pod, func(c *resourceapi.ResourceClaim, h Hold) {
		if s := pod.Status.ExtendedResourceClaimStatus; s != nil && s.ResourceClaimName == c.Name {
			if r, err := dialect.Request(pod); err != nil || r != nil {
				return // its extended resource counts
			}
		}
		with = append(with, b.others(c, pod)...)
		if len(h.Whole) > 0 {
			by.Containers = append(by.Containers, model.Container{Name: c.Name, Count: len(h.Whole)})
		}
		for _, p := range h.Parts {
			by.Containers = append(by.Containers, model.Container{Name: c.Name, Count: 1, Part: p.Part})
		}
	})
	if len(by.Containers) == 0 {
		return nil
	}
	for _, c := range by.Containers {
		if c.Part.Kind != by.Containers[0].Part.Kind {
			return nil // counted by its ledger claim
		}
	}
	return &Ask{By: by, With: with, Key: fmt.Sprintf("holds %v", by.Containers)}
}

// others are the pods beside one that a claim is reserved for and that have not ended.
func (b *Book) others(c *resourceapi.ResourceClaim, but *v1.Pod) (out []*v1.Pod) {
	for _, ref := range c.Status.ReservedFor {
		if ref.Resource != "pods" || ref.APIGroup != "" || ref.UID == but.UID {
			continue
		}
		if p, err := b.pods.Pods(c.Namespace).Get(ref.Name); err == nil && p.UID == ref.UID && !ended(p) {
			out = append(out, p)
		}
	}
	return out
}

// Named are the claims that a pod names, by namespace/name.
func (b *Book) Named(pod *v1.Pod) (keys []string) {
	for _, name := range claimNames(pod) {
		keys = append(keys, pod.Namespace+"/"+name)
	}
	return keys
}

package chaos

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/test/chaos/checker"
)

// boundWithin is how long after the faults everything that fits may take.
const boundWithin = 60 * time.Second

// settle repairs the cluster, deletes load until all that is left must fit wherever
// each pod is put, and waits until it is bound. It returns how many units that were,
// and how long it took.
func (l *load) settle(ctx context.Context) (units int, took time.Duration, err error) {
	begin := time.Now()
	if err := l.w.able.awaitAPI(ctx, time.Minute); err != nil {
		return 0, 0, err
	}
	if err := l.repair(ctx); err != nil {
		return 0, 0, err
	}
	kept := l.thin(ctx)
	l.w.say("faults are over; %d units are left, and all must be bound", len(kept))
	l.w.checker.Note(time.Now(), "faults are over, everything left fits")
	var late []string
	told := begin
	for time.Since(begin) < boundWithin && ctx.Err() == nil {
		if late = l.w.checker.Overdue(time.Now(), kept, l.ended(kept)); len(late) == 0 {
			return len(kept), time.Since(begin), nil
		}
		l.sweep(ctx, kept)
		if time.Since(told) > 10*time.Second {
			told = time.Now()
			l.w.sayWhy(ctx, late)
		}
		time.Sleep(100 * time.Millisecond)
	}
	l.w.checker.ReportOverdue(time.Now(), late)
	return len(kept), time.Since(begin), nil
}

// sayWhy tells which units are late, and what the scheduler says of their pods.
func (w *world) sayWhy(ctx context.Context, late []string) {
	reasons := map[string]string{}
	if list, err := w.client.CoreV1().Pods(namespaced()).List(ctx, metav1.ListOptions{}); err == nil {
		for _, p := range list.Items {
			for _, c := range p.Status.Conditions {
				if c.Type == v1.PodScheduled && p.Spec.NodeName == "" {
					reasons[p.Labels[checker.LabelUnit]] = c.Reason + ": " + c.Message
				}
			}
		}
	}
	for _, text := range late {
		name, _, _ := strings.Cut(text, ":")
		text = fmt.Sprintf("late: %s; the scheduler says %q", text, reasons[name])
		w.say("%s", text)
		w.checker.Note(time.Now(), text, name)
	}
}

// repair opens nodes, heals devices, and takes away what was bound by hand.
func (l *load) repair(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop = true
	return retry(ctx, func(ctx context.Context) error {
		l.openNodes(ctx)
		l.healNodes(ctx)
		if !l.w.deleteHandBound(ctx) || len(l.shut)+len(l.sick) > 0 {
			return fmt.Errorf("cordoned: %v, failed: %v, or pods bound by hand are left", l.shut, l.sick)
		}
		return nil
	})
}

// thin deletes units until the rest fits; those that wait are kept first.
func (l *load) thin(ctx context.Context) []checker.Unit {
	waits := map[string]bool{}
	for _, p := range l.w.checker.Pods() {
		waits[p.Unit] = waits[p.Unit] || p.Node == "" && p.Phase == v1.PodPending
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	names := slices.Sorted(maps.Keys(l.units))
	l.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	// Beside a pod with a whole node's devices, or a large gang, few others are sure to
	// fit: these come last, so that many units are left.
	rank := func(name string) int {
		switch u := l.units[name]; {
		case u.Pods[0].Whole == 8 || u.devices() > 10:
			return 2
		case !waits[name]:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	var all []checker.Unit
	for _, name := range names {
		all = append(all, l.units[name].Unit)
	}
	kept := facts(l.w.fleet).Keep(all)
	for _, u := range all {
		if !slices.ContainsFunc(kept, func(k checker.Unit) bool { return k.Name == u.Name }) {
			_ = retry(ctx, func(ctx context.Context) error { // one that stays makes the run fail, rightly
				l.delete(ctx, l.units[u.Name], "deleted, so that the rest fits")
				if l.units[u.Name] != nil {
					return fmt.Errorf("unit %s is left", u.Name)
				}
				return nil
			})
		}
	}
	return kept
}

// sweep deletes pods of units that are not kept: those of deleted Jobs would go when
// the garbage collector comes to them, which is not the scheduler's time.
func (l *load) sweep(ctx context.Context, kept []checker.Unit) {
	keep := map[string]bool{}
	for _, u := range kept {
		keep[u.Name] = true
	}
	for _, p := range l.w.checker.Pods() {
		if !keep[p.Unit] && !p.Pulse && !p.Terminating {
			_ = l.w.client.CoreV1().Pods(namespaced()).Delete(ctx, p.Name, metav1.DeleteOptions{}) // or the next time
		}
	}
}

// ended are units that need not be bound any more: over, or no longer the load's.
func (l *load) ended(units []checker.Unit) map[string]bool {
	_, over := l.look()
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]bool{}
	for _, k := range units {
		u := l.units[k.Name]
		out[k.Name] = u == nil || isOver(l.phases[k.Name]) || !u.isJob && over[k.Name] == len(u.Pods)
	}
	return out
}

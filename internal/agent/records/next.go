package records

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// candidate is a container that kubelet may be serving now.
type candidate struct {
	pod *v1.Pod
	ask ask
}

// candidates are the containers that kubelet may be serving, oldest Binding first: its calls
// carry no name. It serves one pod at a time and lists that pod while it does, so they are of
// listed pods that ask for as many devices of the resource and have none yet. There are
// several only when pods wait that kubelet could not serve before. Without a listing they are
// of all pods of the node that the journal knows nothing of.
func (b *Book) candidates(ctx context.Context, listing Listing, resource string, size int) (out []candidate) {
	if listing == nil {
		for _, pod := range b.o.Pods.List() {
			if a, ok := b.unserved(pod, nil, resource, size); ok {
				out = append(out, candidate{pod, a})
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, b.o.Patience)
	defer cancel()
	for i := range listing {
		l := &listing[i]
		pod := b.o.Pods.Get(l.Namespace, l.Name)
		if pod == nil {
			pod = b.await(ctx, l)
		}
		if a, ok := b.unserved(pod, l, resource, size); ok {
			out = append(out, candidate{pod, a})
		}
	}
	slices.SortFunc(out, func(x, y candidate) int { return older(x.pod, y.pod) })
	return out
}

// await waits for a pod that kubelet lists and the agent does not know yet, once: kubelet may
// hear of a pod first. It returns nil when the context ends before the pod is known.
func (b *Book) await(ctx context.Context, l *Listed) *v1.Pod {
	key := l.Namespace + "/" + l.Name
	b.mu.Lock()
	stranger := b.strangers[key]
	b.mu.Unlock()
	for !stranger {
		changed := b.o.Pods.Changed()
		if pod := b.o.Pods.Get(l.Namespace, l.Name); pod != nil {
			return pod
		}
		select {
		case <-changed:
		case <-ctx.Done():
			b.mu.Lock()
			b.strangers[key] = true
			b.mu.Unlock()
			return nil
		}
	}
	return nil
}

// unserved is the first container of a pod that has not got its devices of a resource,
// if it asks for so many. Without a listing (nil) every answer counts as kept.
func (b *Book) unserved(pod *v1.Pod, l *Listed, resource string, size int) (ask, bool) {
	if pod == nil || !live(pod) {
		return ask{}, false
	}
	all := asks(pod, resource)
	b.mu.Lock()
	defer b.mu.Unlock()
	served := func(a ask) bool {
		e := b.journal.find(pod.UID, a.container, resource)
		return e != nil && (l == nil || a.init || e.listed) || len(l.Devices(a.container, resource)) > 0 || hasStarted(pod, a.container)
	}
	// Kubelet serves containers in their order, so all before a served one are served.
	first := 0
	for i, a := range all {
		if served(a) {
			first = i + 1
		}
	}
	if first < len(all) && all[first].count == size {
		return all[first], true
	}
	return ask{}, false
}

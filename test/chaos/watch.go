package chaos

import (
	"context"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tangram-dev/tangram/test/chaos/checker"
)

// follower gives every change of every pod to the checker, in the API server's order.
// It lists anew when the watch breaks.
type follower struct {
	w     *world
	known map[types.UID]checker.Pod
}

func (w *world) follow(ctx context.Context) {
	f := &follower{w: w, known: map[types.UID]checker.Pod{}}
	for ctx.Err() == nil {
		if version, ok := f.list(ctx); ok {
			f.watch(ctx, version)
		}
		w.able.lost(noWatch)
		time.Sleep(50 * time.Millisecond)
	}
}

// list compares what is known with what there is.
func (f *follower) list(ctx context.Context) (version string, ok bool) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := f.w.watching.CoreV1().Pods(namespaced()).List(call, metav1.ListOptions{})
	if err != nil {
		return "", false
	}
	there := map[types.UID]bool{}
	for i := range list.Items {
		there[list.Items[i].UID] = true
	}
	for uid, p := range f.known { // before those that may have taken their place
		if !there[uid] {
			f.forget(uid, p)
		}
	}
	slices.SortFunc(list.Items, func(a, b v1.Pod) int { return int(number(a.ResourceVersion) - number(b.ResourceVersion)) })
	for i := range list.Items {
		f.see(&list.Items[i])
	}
	return list.ResourceVersion, true
}

func number(version string) int64 {
	n, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (f *follower) watch(ctx context.Context, version string) {
	for ctx.Err() == nil {
		w, err := f.w.watching.CoreV1().Pods(namespaced()).Watch(ctx, metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true})
		if err != nil {
			return
		}
		f.w.able.regained(noWatch, time.Now())
		for e := range w.ResultChan() {
			p, ok := e.Object.(*v1.Pod)
			if !ok { // an error: the version is too old
				w.Stop()
				return
			}
			version = p.ResourceVersion
			switch e.Type {
			case watch.Added, watch.Modified:
				f.see(p)
			case watch.Deleted:
				f.forget(p.UID, checker.FromAPI(p))
			}
		}
	}
}

func (f *follower) see(p *v1.Pod) {
	seen := checker.FromAPI(p)
	if f.known[p.UID].ResourceVersion == p.ResourceVersion {
		return
	}
	f.known[p.UID] = seen
	f.w.checker.See(time.Now(), seen, false)
}

func (f *follower) forget(uid types.UID, p checker.Pod) {
	delete(f.known, uid)
	f.w.checker.See(time.Now(), p, true)
}

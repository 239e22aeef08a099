package plugin

import (
	"context"
	"errors"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/api/demand"
	"github.com/tangram-dev/tangram/api/names"
)

// How often the document is written: again while nothing changes, so that readers know
// that this process lives; after a failure; and not more often than.
const (
	demandRenew = time.Minute
	demandRetry = 2 * time.Second
	demandPace  = 200 * time.Millisecond
	// demandSettle is how long the first document waits where a former leader has left one:
	// what gangs lack is found out one after the other, and what is asked for already must
	// not be taken back meanwhile.
	demandSettle = 10 * time.Second
)

// demander tells gpu-controller what autoscalers are asked for: it keeps one ConfigMap up
// to date. The nil value tells nobody.
type demander struct {
	client kubernetes.Interface
	// mayWrite says why this process may not write now: it may not lead any more.
	mayWrite func() error

	mu     sync.Mutex
	latest demand.Document
	some   chan struct{}

	// object is the ConfigMap as it was last read or written; nil: unknown.
	object *v1.ConfigMap
	failed bool
}

func newDemander(client kubernetes.Interface, mayWrite func() error) *demander {
	return &demander{client: client, mayWrite: mayWrite, some: make(chan struct{}, 1)}
}

// tell queues what is asked for now; nil: what was asked for before. It does not wait.
func (d *demander) tell(doc *demand.Document) {
	if d == nil || doc == nil {
		return
	}
	d.mu.Lock()
	d.latest = *doc
	d.mu.Unlock()
	select {
	case d.some <- struct{}{}:
	default:
	}
}

// run writes until the context ends.
func (d *demander) run(ctx context.Context) {
	if d.asked(ctx) {
		pause(ctx, demandSettle)
	}
	renew := time.NewTicker(demandRenew)
	defer renew.Stop()
	for ctx.Err() == nil {
		again := renew.C
		began := time.Now()
		err := d.write(ctx)
		if err != nil {
			if !d.failed {
				klog.FromContext(ctx).Error(err, "Autoscalers are not asked for nodes: the ConfigMap was not written", "configMap", klog.KRef(names.DemandNamespace, names.DemandName))
			}
			again = time.After(demandRetry)
		}
		d.failed = err != nil
		select {
		case <-ctx.Done():
		case <-again:
		case <-d.some:
			pause(ctx, demandPace-time.Since(began))
		}
	}
}

// asked says whether somebody has asked for something a moment ago.
func (d *demander) asked(ctx context.Context) bool {
	object, err := d.client.CoreV1().ConfigMaps(names.DemandNamespace).Get(ctx, names.DemandName, metav1.GetOptions{})
	if err != nil {
		return false
	}
	d.object = object
	doc, err := demand.Decode([]byte(object.Data[demand.Key]))
	return err == nil && len(doc.Kept)+len(doc.Gangs) > 0 && time.Since(doc.At) < demand.Stale
}

// write replaces the document. The version in the write makes a late one of a former leader
// fail.
func (d *demander) write(ctx context.Context) error {
	d.mu.Lock()
	doc := d.latest
	d.mu.Unlock()
	doc.At = time.Now().UTC().Truncate(time.Second)
	text, err := doc.Encode()
	if err != nil {
		return err
	}
	maps := d.client.CoreV1().ConfigMaps(names.DemandNamespace)
	if d.object == nil {
		if d.object, err = maps.Get(ctx, names.DemandName, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			d.object = nil
			return errors.New("it does not exist, and this scheduler may not create it; make it without data: kubectl -n " +
				names.DemandNamespace + " create configmap " + names.DemandName)
		} else if err != nil {
			d.object = nil
			return err
		}
	}
	if err := d.mayWrite(); err != nil {
		return err
	}
	object := d.object.DeepCopy()
	object.Data, object.BinaryData = map[string]string{demand.Key: string(text)}, nil
	done, err := maps.Update(ctx, object, metav1.UpdateOptions{})
	if err != nil {
		d.object = nil // another wrote it, or is it gone? The next time it is read again.
		return err
	}
	d.object = done
	return nil
}

// pause waits, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

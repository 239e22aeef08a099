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
	// demandSettle is how long the first document waits after a former leader's: what gangs
	// lack is found one after the other, and what is asked for must not be taken back.
	demandSettle = 10 * time.Second
)

// demander tells gpu-controller what autoscalers are asked for: it keeps one ConfigMap up
// to date. The nil value tells nobody.
type demander struct {
	client   kubernetes.Interface
	mayWrite func() error // mayWrite says why this process may not write now: it may not lead any more

	mu     sync.Mutex
	latest demand.Document
	some   chan struct{}

	object *v1.ConfigMap // the ConfigMap as it was last read or written; nil: unknown
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
		sleep(ctx, demandSettle)
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
			sleep(ctx, demandPace-time.Since(began))
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
		object, err := maps.Get(ctx, names.DemandName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return errors.New("it does not exist, and this scheduler may not create it; make it without data: kubectl -n " +
				names.DemandNamespace + " create configmap " + names.DemandName)
		} else if err != nil {
			return err
		}
		d.object = object
	}
	if err := d.mayWrite(); err != nil {
		return err
	}
	object := d.object.DeepCopy()
	object.Data, object.BinaryData = map[string]string{demand.Key: string(text)}, nil
	if d.object, err = maps.Update(ctx, object, metav1.UpdateOptions{}); err != nil {
		d.object = nil // another process wrote it, or it is gone: it is read again
	}
	return err
}

package watch

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Fixed is an Optional that knows the objects it is given and watches nothing: for a copy
// of a scheduler's state. It must not be run.
func Fixed[T metav1.Object](example runtime.Object, objects []T) (*Optional[T], error) {
	w := &Optional[T]{again: make(chan struct{}, 1), all: func() {}, handler: listed{}}
	w.informer = cache.NewSharedIndexInformer(nowhere{}, example, 0, nil)
	for _, o := range objects {
		if err := w.Put(o); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// Put adds an object to a Fixed one, or replaces it.
func (w *Optional[T]) Put(o T) error { return w.informer.GetStore().Add(o) }

// listed is a registration that has seen everything.
type listed struct {
	cache.ResourceEventHandlerRegistration
}

func (listed) HasSynced() bool { return true }

// nowhere has no objects.
type nowhere struct{}

var errNowhere = errors.New("a copy of the state watches nothing")

func (nowhere) List(metav1.ListOptions) (runtime.Object, error) { return nil, errNowhere }

func (nowhere) Watch(metav1.ListOptions) (apiwatch.Interface, error) { return nil, errNowhere }

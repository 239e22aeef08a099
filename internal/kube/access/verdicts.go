package access

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// How long a verdict is used, and after which part of that it is asked for anew meanwhile:
// who asks all the time does not wait for the API server every ten seconds.
const (
	verdictFor   = 10 * time.Second
	verdictRenew = verdictFor / 2
	// maxVerdicts are kept; of callers whose groups make a longer text than maxKey none are.
	maxVerdicts = 8192
	maxKey      = 10_000
)

// verdicts keeps what the API server said that users may do. It is safe for concurrent use.
type verdicts struct {
	ask  authorizer.Authorizer
	kept *cache.LRUExpireCache
}

type verdict struct {
	may      bool
	why      string
	at       time.Time
	renewing atomic.Bool
}

func newVerdicts(ask authorizer.Authorizer) *verdicts {
	return &verdicts{ask: ask, kept: cache.NewLRUExpireCache(maxVerdicts)}
}

// may asks whether the attributes' user may do what they say.
func (v *verdicts) may(ctx context.Context, what *authorizer.AttributesRecord) (may bool, why string, err error) {
	key := keyOf(what)
	if kept, ok := v.kept.Get(key); ok {
		said := kept.(*verdict)
		if time.Since(said.at) >= verdictRenew && said.renewing.CompareAndSwap(false, true) {
			go v.renew(key, *what, said)
		}
		return said.may, said.why, nil
	}
	said, err := v.find(ctx, key, what)
	if err != nil {
		return false, "", err
	}
	return said.may, said.why, nil
}

// renew asks again. Where that fails, what was said before is used until its time is over.
func (v *verdicts) renew(key string, what authorizer.AttributesRecord, before *verdict) {
	defer before.renewing.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	_, _ = v.find(ctx, key, &what)
}

func (v *verdicts) find(ctx context.Context, key string, what *authorizer.AttributesRecord) (*verdict, error) {
	asked := time.Now()
	decision, why, err := v.ask.Authorize(ctx, what)
	if err != nil {
		return nil, err
	}
	said := &verdict{may: decision == authorizer.DecisionAllow, why: why, at: asked}
	if len(key) <= maxKey {
		v.kept.Add(key, said, verdictFor-time.Since(asked))
	}
	return said, nil
}

// keyOf is all that a verdict depends on.
func keyOf(what *authorizer.AttributesRecord) string {
	key, err := json.Marshal([]any{
		what.User.GetName(), what.User.GetUID(), what.User.GetGroups(), what.User.GetExtra(),
		what.Verb, what.APIGroup, what.APIVersion, what.Resource, what.Subresource, what.Namespace, what.Name, what.Path, what.ResourceRequest,
	})
	if err != nil {
		panic(err) // texts always encode
	}
	return string(key)
}

package plugin

import (
	"cmp"
	"context"
	"os"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/tangram-dev/tangram/api/names"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
	"github.com/tangram-dev/tangram/internal/kube/memory"
)

// stateTimeout is how long reading or writing the state may take: the start and the end of
// a process wait for it.
const stateTimeout = 5 * time.Second

// keeping keeps what the engine has learned for the next process. The nil value keeps
// nothing.
type keeping struct {
	engine *kubeengine.Engine
	every  time.Duration

	mu sync.Mutex
	*memory.Keeper
	leads bool // the state was restored, and what is learned since is worth keeping
}

// keep makes what is needed to keep the state; nothing where the arguments say so.
func (s *Shared) keep(client kubernetes.Interface, namespace string) {
	args := s.stateArgs
	if s.engine == nil || args.Enabled != nil && !*args.Enabled {
		return
	}
	host, _ := os.Hostname() // only for people
	s.keeping = &keeping{engine: s.engine, every: s.tuning.state.every, Keeper: &memory.Keeper{
		Client: client, Namespace: cmp.Or(args.Namespace, namespace, "kube-system"), Name: cmp.Or(args.Name, names.StateName),
		Identity: host, MayWrite: s.fence.check, Clock: time.Now,
	}}
}

// begin restores the state when this process begins to lead, and keeps it from then on. It
// returns when the state is restored, or cannot be.
func (k *keeping) begin(ctx context.Context) {
	if k == nil {
		return
	}
	k.mu.Lock()
	reading, cancel := context.WithTimeout(ctx, stateTimeout)
	if s := k.Load(reading); s != nil {
		k.engine.Restore(s)
	}
	cancel()
	k.leads = true
	k.mu.Unlock()
	go wait.UntilWithContext(ctx, k.save, k.every) // at once, so that a former leader's writes fail
}

// save saves the state, if this process leads. What fails is logged by the keeper.
func (k *keeping) save(ctx context.Context) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.leads || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	_ = k.Save(ctx, k.engine.Learned())
}

// Shutdown keeps what was learned and writes what waits for the audit log. It is called
// while this process still leads.
func (s *Shared) Shutdown(ctx context.Context) {
	s.keeping.save(ctx)
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	if s.audit.on() {
		s.audit.log.Drain(ctx)
	}
}

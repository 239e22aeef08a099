package replica

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/core/engine"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
)

// Service answers questions on copies of a live engine. It is safe for concurrent use.
//
// A copy and its simulation take processor time, not the engine's lock. So few run at once:
// one for each user, of whom all service accounts of a namespace are one, and two in all;
// and the forecast is made anew only when it is asked for, is stale, and has been left alone
// for longer than it took.
type Service struct {
	engine  *kubeengine.Engine
	version string

	mu      sync.Mutex
	running map[string]bool

	forecast forecaster
}

// AtOnce is how many simulations run at the same time for all users.
const AtOnce = 2

// NewService answers for an engine.
func NewService(e *kubeengine.Engine, version string) *Service {
	s := &Service{engine: e, version: version, running: map[string]bool{}}
	s.forecast.make = func(ctx context.Context) (*Forecast, error) {
		state, err := Of(e)
		if err != nil {
			return nil, err
		}
		return state.Forecast(ctx)
	}
	return s
}

// begin takes one of the few places; end gives it back.
func (s *Service) begin(user string) (end func(), wrong *query.Error) {
	who := user
	if rest, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		who, _, _ = strings.Cut(rest, ":")
		who = "system:serviceaccount:" + who
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	busy := &query.Error{Status: http.StatusTooManyRequests, Reason: "Busy"}
	switch {
	case s.running[who]:
		busy.Message = "a simulation of yours is running; ask again when it is answered"
		return nil, busy
	case len(s.running) >= AtOnce:
		busy.Message = "as many simulations run as may at once; ask again in a second"
		return nil, busy
	}
	s.running[who] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.running, who)
	}, nil
}

// WhatIf answers what would become of a manifest.
func (s *Service) WhatIf(ctx context.Context, user, namespace string, manifest []byte, see Sight) (*query.WhatIf, error) {
	end, wrong := s.begin(user)
	if wrong != nil {
		return nil, wrong
	}
	defer end()
	state, err := Of(s.engine)
	if err != nil {
		return nil, err
	}
	return state.WhatIf(ctx, Question{Manifest: manifest, Namespace: namespace, Sight: see})
}

// Dump writes the engine's state.
func (s *Service) Dump(user string, w io.Writer) error {
	end, wrong := s.begin(user)
	if wrong != nil {
		return wrong
	}
	defer end()
	snapshot, err := s.engine.Snapshot()
	if err != nil {
		return err
	}
	snapshot.Recording = kubeengine.Recording(s.engine)
	return WriteDump(w, snapshot, s.version)
}

// Start is when a waiting gang is expected to start, by the last forecast; false when there
// is none yet, or it does not know. It does not wait: a forecast that is stale is made anew meanwhile.
func (s *Service) Start(id engine.ID) (query.Start, bool) { return s.forecast.start(id) }

// forecaster keeps the last forecast.
type forecaster struct {
	make func(context.Context) (*Forecast, error)

	mu     sync.Mutex
	last   *Forecast
	making bool
	// next is when another one may be made.
	next time.Time
}

// Forecasts are made at most so often, and take at most one part in forecastShare of one
// processor.
const (
	forecastEvery = 5 * time.Second
	forecastShare = 20
	forecastMost  = 20 * time.Second
	// forecastKept is how old a forecast may be to be shown.
	forecastKept = 10 * time.Minute
)

func (f *forecaster) start(id engine.ID) (query.Start, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); !f.making && !now.Before(f.next) {
		f.making = true
		go f.renew(now)
	}
	if f.last == nil || time.Since(f.last.At) > forecastKept {
		return query.Start{}, false
	}
	return f.last.Start(id, time.Now())
}

func (f *forecaster) renew(began time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), forecastMost)
	defer cancel()
	made, err := f.try(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.making = false
	f.next = time.Now().Add(max(forecastEvery, forecastShare*time.Since(began)))
	if err == nil {
		f.last = made
	}
}

// try makes a forecast. A panic of a simulation is an error: it must not end the scheduler.
func (f *forecaster) try(ctx context.Context) (made *Forecast, err error) {
	defer func() {
		if p := recover(); p != nil {
			made, err = nil, fmt.Errorf("panic: %v", p)
			klog.FromContext(ctx).Error(err, "A forecast panicked", "stack", string(debug.Stack()))
		}
	}()
	return f.make(ctx)
}

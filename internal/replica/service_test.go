package replica

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/core/engine"
)

// TestFewAtOnce: a user has one simulation at a time, all have two; service accounts of a
// namespace are one user.
func TestFewAtOnce(t *testing.T) {
	s := NewService(nil, "test")
	first, wrong := s.begin("system:serviceaccount:team-a:x")
	if wrong != nil {
		t.Fatal(wrong)
	}
	if _, wrong := s.begin("system:serviceaccount:team-a:y"); wrong == nil || wrong.Status != 429 || wrong.Reason != "Busy" {
		t.Errorf("a second of one namespace: %v", wrong)
	}
	second, wrong := s.begin("bob")
	if wrong != nil {
		t.Fatal(wrong)
	}
	if _, wrong := s.begin("carol"); wrong == nil || wrong.Status != 429 {
		t.Errorf("a third: %v", wrong)
	}
	first()
	second()
	if len(s.running) != 0 {
		t.Errorf("%v are still there", s.running)
	}
	if _, wrong := s.begin("system:serviceaccount:team-a:y"); wrong != nil {
		t.Error(wrong)
	}
}

// TestForecaster: no question waits for a forecast; it is made when asked for, one at a time, and
// not before it has been left alone for long enough.
func TestForecaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		made, fails := 0, false
		f := forecaster{make: func(context.Context) (*Forecast, error) {
			time.Sleep(2 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			if made++; fails {
				return nil, errors.New("no")
			}
			at := time.Now().Add(time.Hour)
			return &Forecast{At: time.Now(), Starts: map[engine.ID]time.Time{"a": at}, Waited: map[engine.ID]bool{"a": true, "b": true}, Unknown: 2}, nil
		}}
		if _, known := f.start("a"); known {
			t.Error("known before it was made")
		}
		f.start("a")
		time.Sleep(3 * time.Second)
		s, known := f.start("a")
		if !known || s.Known != query.StartsForecast || s.At == nil || made != 1 {
			t.Errorf("got %+v, %d made", s, made)
		}
		if s, _ := f.start("b"); s.Known != query.StartsUnknown || s.Because == "" {
			t.Errorf("got %+v", s)
		}
		time.Sleep(30 * time.Second)
		if f.start("a"); made != 1 {
			t.Errorf("%d made: it took two seconds, so forty have to pass", made)
		}
		time.Sleep(15 * time.Second)
		f.start("a")
		time.Sleep(3 * time.Second)
		if f.start("a"); made != 2 {
			t.Errorf("%d made", made)
		}
		mu.Lock()
		fails = true
		mu.Unlock()
		time.Sleep(time.Hour)
		if _, known := f.start("a"); known {
			t.Error("an hour old, and still told")
		}
		time.Sleep(3 * time.Second)
	})
}

// TestForecasterPanics: a simulation that panics ends neither the process nor forecasts.
func TestForecasterPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		panics := true
		f := forecaster{make: func(context.Context) (*Forecast, error) {
			if panics {
				panic("oops")
			}
			return &Forecast{At: time.Now(), Waited: map[engine.ID]bool{"a": true}}, nil
		}}
		f.start("a")
		synctest.Wait()
		panics = false
		time.Sleep(forecastEvery)
		f.start("a")
		synctest.Wait()
		if _, known := f.start("a"); !known {
			t.Error("no forecast is made any more")
		}
	})
}

// TestForecastTells: a forecast says how old it is, nothing of gangs that came after it was
// made, and no time that has passed.
func TestForecastTells(t *testing.T) {
	f := &Forecast{At: start, Starts: map[engine.ID]time.Time{"a": start.Add(time.Hour)}, Waited: map[engine.ID]bool{"a": true, "b": true}}
	for _, c := range []struct {
		id    engine.ID
		after time.Duration
		known string
	}{
		{"a", time.Minute, query.StartsForecast},
		{"b", time.Minute, query.StartsUnknown},
		{"new", time.Minute, ""},
		{"a", time.Hour, ""},
	} {
		s, ok := f.Start(c.id, start.Add(c.after))
		if ok != (c.known != "") || s.Known != c.known {
			t.Errorf("%s after %s: %+v, %v", c.id, c.after, s, ok)
		}
		if ok && !strings.Contains(s.Because, "1m0s ago") {
			t.Errorf("%s: %s", c.id, s.Because)
		}
	}
}

// TestStuckPod: a pod that should have gone long ago does not keep a simulation from going
// on.
func TestStuckPod(t *testing.T) {
	s := world(1)
	long := metav1.NewTime(start.Add(-24 * time.Hour))
	s.Pods = append(s.Pods,
		pod("stuck", 4, on("n0", 48*time.Hour), func(p *v1.Pod) { p.DeletionTimestamp = &long }),
		pod("runs", 8, on("n0", time.Minute), lasting("1h")), pod("waits", 8))
	s.Pods[1].Spec.Containers[0].Resources.Requests[names.ResourceNVIDIA] = resource.MustParse("4")
	x, err := NewRun(s, DefaultLimits())
	must(t, err)
	f, err := x.forecast(t.Context())
	must(t, err)
	if len(f.Starts) != 1 || f.stopped != StopDone || x.steps > 200 {
		t.Errorf("starts %v, stopped by %q after %d steps", f.Starts, f.stopped, x.steps)
	}
}

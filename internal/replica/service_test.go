package replica

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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

// TestForecaster: nobody waits for a forecast; it is made when asked for, one at a time, and
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
			return &Forecast{At: time.Now(), Starts: map[engine.ID]time.Time{"a": at}, Unknown: 2}, nil
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

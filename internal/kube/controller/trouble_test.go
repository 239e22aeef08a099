package controller

import (
	"errors"
	"testing"
	"time"
)

// TestTrouble: a message that differs with each attempt changes the status only from
// time to time, because each change causes the next attempt.
func TestTrouble(t *testing.T) {
	tr, at := newTrouble(), time.Unix(0, 0)
	said := func() string {
		if p := tr.of("j"); p != nil {
			return p.Message
		}
		return ""
	}
	tr.note("j", errors.New("a"), at)
	tr.note("j", errors.New("b"), at.Add(troubleKept-1))
	if said() != "a" {
		t.Error(said())
	}
	tr.note("j", errors.New("c"), at.Add(troubleKept))
	if said() != "c" || tr.of("k") != nil {
		t.Error(said())
	}
	tr.forget("j")
	if said() != "" {
		t.Error(said())
	}
}

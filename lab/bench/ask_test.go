package bench

import (
	"strings"
	"testing"
	"time"
)

// TestAskFlag: a question and a rate, nothing else.
func TestAskFlag(t *testing.T) {
	for text, want := range map[string]float64{"why=20": 20, "why=0.5": 0.5} {
		var a Ask
		if err := a.Set(text); err != nil || a.Why != want || a.String() != text {
			t.Errorf("%s: %+v, %v", text, a, err)
		}
	}
	for _, text := range []string{"", "why", "why=", "why=0", "why=-1", "why=1e9", "when=1", "why=NaN"} {
		var a Ask
		if err := a.Set(text); err == nil || !strings.Contains(err.Error(), "why=RATE") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestAskedContender: with --ask, the same scheduler runs with and without questions.
func TestAskedContender(t *testing.T) {
	c := DefaultConfig()
	c.Contenders = []string{Ceiling, Tangram}
	c.withAsked()
	if got := strings.Join(c.Contenders, " "); got != "ceiling tangram" {
		t.Errorf("without --ask: %s", got)
	}
	c.Ask.Why = 1
	c.withAsked()
	c.withAsked()
	if got := strings.Join(c.Contenders, " "); got != "ceiling tangram tangram-asked" {
		t.Errorf("with --ask: %s", got)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	c.Ask.Why = 0
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "--ask") {
		t.Errorf("%s without --ask: %v", TangramAsked, err)
	}
}

// TestAskedRatio: the ratio is to the same scheduler without questions, of the same round.
func TestAskedRatio(t *testing.T) {
	round := []Result{{Contender: Tangram, PodsPerSecond: 200}, {Contender: TangramAsked, PodsPerSecond: 196, Asked: &Asked{Answers: 3}}}
	addRatios(round)
	if r := round[1].Asked.OfUnasked; r == nil || *r != 0.98 {
		t.Errorf("%v", r)
	}
	s := summarise([]string{Tangram, TangramAsked}, round)
	if a := s[1].Asked; a == nil || a.Answers != 3 || a.OfUnasked == nil || *a.OfUnasked != 0.98 || s[0].Asked != nil {
		t.Errorf("%+v", s)
	}
	if rows := askedRows(s); len(rows) != 2 || rows[1][8] != "0.980" {
		t.Errorf("%v", rows)
	}
}

// TestServedIn: what the scheduler says about its own part is read from its header.
func TestServedIn(t *testing.T) {
	if got := servedIn("access;dur=0.3, turn;dur=0.0, lock;dur=2.0, held;dur=0.4, total;dur=12.5"); got != 12500*time.Microsecond {
		t.Error(got)
	}
	if got := servedIn(""); got != 0 {
		t.Error(got)
	}
}

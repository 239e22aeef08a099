package recovery

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// limit is how many of n may be isolated at once.
func limit(n, percent int) int { return max(1, n*percent/100) }

// room says whether more may be isolated: what is, together with everything that looks
// sick, confirmed or not, must be within the limit. If it is not, nothing new is isolated
// at all: taking the first few of a false alarm would be as wrong as taking all.
func room(isolated, suspects, most int) bool { return isolated+suspects <= most }

// rising: others fell under suspicion since this one did, so there may be more to come. It
// waits for one look more than it would, to see whether they are too many.
func (s *step) rising(t *target, suspects []*target) bool {
	return t.looks <= s.c.Confirmations && slices.ContainsFunc(suspects, func(o *target) bool { return o.looks < s.c.Confirmations })
}

// doubtful: what was isolated a short time before so many others fell under suspicion was
// the beginning of that, and no pod is evicted for it.
func (s *step) doubtful(held bool, mark *Mark, interval time.Duration) bool {
	return held && s.now.Sub(mark.Detected) < doubtfulFor*interval
}

// doubtfulFor is in looks.
const doubtfulFor = 5

// noticesPerHold bounds how many nodes are told that they were held back; the text says
// how many there are.
const noticesPerHold = 10

// hold reports suspects that are left alone because there are too many: once for each, and
// once for the cluster.
func (s *step) hold(what string, suspects []*target, nodes []string, isolated, most int) {
	byCause := map[Cause]int{}
	fresh, told := 0, 0
	for i, t := range suspects {
		byCause[t.cause]++
		if t.told {
			continue
		}
		t.told = true
		s.plan.Suppressed[t.cause]++
		fresh++
		if told < noticesPerHold && nodes[i] != "" {
			told++
			s.plan.Notices = append(s.plan.Notices, Notice{Node: nodes[i], Reason: "IsolationHeldBack",
				Text: fmt.Sprintf("%s. Nothing is done about it: %d %s look sick and %d are isolated, and at most %d may be at once", t.why, len(suspects), what, isolated, most)})
		}
	}
	if fresh == 0 {
		return
	}
	words := ""
	for _, c := range slices.Sorted(maps.Keys(byCause)) {
		words += fmt.Sprintf(" %s %d", c, byCause[c])
	}
	s.plan.Notices = append(s.plan.Notices, Notice{Reason: "IsolationHeldBack",
		Text: fmt.Sprintf("%d %s look sick (%s) and %d are isolated, at most %d may be at once: nothing is isolated or evicted, since so many faults at once are more likely a fault of what reports them", len(suspects), what, words[1:], isolated, most)})
}

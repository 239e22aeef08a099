package gang

import (
	"slices"

	"github.com/tangram-dev/tangram/core/model"
)

// table holds the sums of members that the nodes so far can take. A sum is a number per
// role. Of the last role only the maximum is kept for each sum of the others, since
// more of it is never worse.
type table struct {
	*weighing
	digits []mix // of each sum, but for the last role
	places []int // what one more of a role adds to a sum's number
	last   []int // by sum; -1 where it cannot be reached
	// from[node] says how each sum was reached with that node.
	from [][]step
}

// step is the previous sum and the mix placed on the node; none when no member goes
// there.
type step struct {
	sum int32
	mix int16
}

const none = -1

// table assigns members to nodes so that the minimums are met; nil when no assignment
// exists, or none was found within the limits.
func (w *weighing) table(nodes []model.NodeID, mixes [][]mix) []use {
	t := &table{weighing: w}
	if !t.begin() {
		return nil
	}
	for n := range nodes {
		if w.steps -= len(t.last) * (len(mixes[n]) + 1); w.steps < 0 {
			return nil
		}
		t.add(mixes[n])
		if counts, sum := t.enough(); counts != nil {
			return t.trace(nodes, mixes, counts, sum)
		}
	}
	return nil
}

// begin enumerates the sums; false when there are too many.
func (t *table) begin() bool {
	other := t.most[:len(t.most)-1]
	sums := 1
	for _, n := range other {
		t.places = append(t.places, sums)
		if sums *= n + 1; sums > maxSums {
			return false
		}
	}
	for sum := range sums {
		m := make(mix, len(other))
		for i, n := range other {
			m[i] = sum / t.places[i] % (n + 1)
		}
		t.digits = append(t.digits, m)
		t.last = append(t.last, none)
	}
	t.last[0] = 0
	return true
}

// add extends the table by a node, which takes one of its mixes or no member.
func (t *table) add(mixes []mix) {
	top := len(t.most) - 1
	next := slices.Clone(t.last)
	from := make([]step, len(next))
	for sum := range from {
		from[sum] = step{int32(sum), none}
	}
	for sum, last := range t.last {
		if last == none {
			continue
		}
		for k, m := range mixes {
			to := 0
			for i, n := range t.digits[sum] {
				to += min(n+m[i], t.most[i]) * t.places[i]
			}
			if n := min(last+m[top], t.most[top]); n > next[to] {
				next[to], from[to] = n, step{int32(sum), int16(k)}
			}
		}
	}
	t.last, t.from = next, append(t.from, from)
}

// enough finds a sum that meets all minimums, and how many members of each role to take
// from it.
func (t *table) enough() (counts mix, sum int) {
	for sum, last := range t.last {
		if last == none || t.digits[sum].sum()+last < t.least {
			continue
		}
		reached := append(slices.Clone(t.digits[sum]), last)
		if counts := t.choose(reached); counts != nil {
			return counts, sum
		}
	}
	return nil, 0
}

// choose takes as many members of each role as required out of those reached; nil when
// a role has too few, or Allow refuses the numbers.
func (t *table) choose(reached mix) mix {
	counts := make(mix, len(reached))
	left := t.least
	for i, role := range t.roles {
		if counts[i] = t.ask.Roles[role].Min; reached[i] < counts[i] {
			return nil
		}
		left -= counts[i]
	}
	if t.more(counts, reached, 0, left) {
		return counts
	}
	return nil
}

// more adds left members of role and the roles after it.
func (t *table) more(counts, reached mix, role, left int) bool {
	if left <= 0 {
		return t.allows(counts)
	}
	if role == len(counts) || !t.allows(counts) {
		return false
	}
	had := counts[role]
	for n := min(left, reached[role]-had); n >= 0; n-- {
		counts[role] = had + n
		if t.more(counts, reached, role+1, left-n) {
			return true
		}
	}
	counts[role] = had
	return false
}

// allows asks Allow about these numbers of members.
func (t *table) allows(counts mix) bool {
	if t.ask.Allow == nil {
		return true
	}
	if t.steps -= stepsPerFit; t.steps < 0 {
		return false
	}
	all := make([]int, len(t.ask.Roles))
	for i, role := range t.roles {
		all[role] = counts[i]
	}
	return t.ask.Allow(all)
}

// trace follows the steps back to the first node, and drops members beyond the counts.
func (t *table) trace(nodes []model.NodeID, mixes [][]mix, counts mix, sum int) []use {
	var out []use
	for n := len(t.from) - 1; n >= 0; n-- {
		s := t.from[n][sum]
		sum = int(s.sum)
		if s.mix == none {
			continue
		}
		m := slices.Clone(mixes[n][s.mix])
		for i := range m {
			m[i] = min(m[i], counts[i])
			counts[i] -= m[i]
		}
		if m.sum() > 0 {
			out = append(out, use{nodes[n], m})
		}
	}
	slices.Reverse(out)
	return out
}

package measure

import "slices"

// Usage is what a meter has counted since it began, complete: accounts that Read has dropped
// because no pod holds anything any more are in it.
//
// There may be as many past accounts as present ones; what exceeds that is summed under the
// namespace, with Other for queue and user, and then under Other.
func (m *Meter) Usage(now int64) []Used {
	sums := usedSums{}
	for key, a := range m.accounts {
		if a.holders > 0 {
			a.settle(&m.prices, now)
		}
		u := sums.at(key)
		u.Milli = a.milli
		u.add(Row{key, a.amount, a.unpriced, a.cost})
	}
	for key, r := range m.past {
		sums.at(key).add(*r)
	}
	return sums.sorted()
}

// usedSums are sums under way.
type usedSums map[Key]*Used

func (s usedSums) at(k Key) *Used {
	if s[k] == nil {
		s[k] = &Used{Row: Row{Key: k}}
	}
	return s[k]
}

func (s usedSums) sorted() []Used {
	out := make([]Used, 0, len(s))
	for _, u := range s { // sorted below
		out = append(out, *u)
	}
	slices.SortFunc(out, func(a, b Used) int { return a.Key.compare(b.Key) })
	return out
}

// Since is when the meter began to count.
func (m *Meter) Since() int64 { return m.since }

// Used is a row with what is held now, in thousandths of a device.
type Used struct {
	Row
	Milli int64
}

func (r *Row) add(o Row) {
	r.Amount, r.Unpriced, r.Cost = add(r.Amount, o.Amount), add(r.Unpriced, o.Unpriced), add(r.Cost, o.Cost)
}

// keep adds an account that is dropped to those of the past.
func (m *Meter) keep(key Key, a *account) {
	if a.amount == 0 {
		return
	}
	for _, k := range []Key{key, {Other, key.Namespace, Other, key.Model}, {Other, Other, Other, key.Model}} {
		old := m.past[k]
		last := k.Namespace == Other
		switch {
		case old != nil:
		case last || len(m.past) < m.limits.Keys && m.pastOf[k.Namespace] < m.limits.PerNamespace:
			old = &Row{Key: k}
			m.past[k] = old
			m.pastOf[k.Namespace]++
		default:
			continue
		}
		old.add(Row{k, a.amount, a.unpriced, a.cost})
		return
	}
}

// Sum adds rows up by the columns that are true in by; others are left empty. Rows that
// visible refuses are added to hidden instead.
func Sum(rows []Used, by Columns, visible func(namespace string) bool) (items []Used, hidden Used) {
	sums := usedSums{}
	for _, r := range rows {
		u := &hidden
		if visible(r.Namespace) {
			u = sums.at(by.of(r.Key))
		}
		u.Milli = add(u.Milli, r.Milli)
		u.add(r.Row)
	}
	return sums.sorted(), hidden
}

// Columns are those of Key that sums are told apart by.
type Columns struct{ Queue, Namespace, User, Model bool }

func (c Columns) of(k Key) Key {
	if !c.Queue {
		k.Queue = ""
	}
	if !c.Namespace {
		k.Namespace = ""
	}
	if !c.User {
		k.User = ""
	}
	if !c.Model {
		k.Model = ""
	}
	return k
}

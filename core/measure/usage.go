package measure

import (
	"slices"
)

// Usage is what a meter has counted since it began, complete: accounts that Read has dropped
// because no pod holds anything any more are in it.
//
// There may be as many past accounts as present ones; what exceeds that is summed under the
// namespace, with Other for queue and user, and then under Other.
func (m *Meter) Usage(now int64) []Used {
	sums := map[Key]*Used{}
	at := func(k Key) *Used {
		if sums[k] == nil {
			sums[k] = &Used{Key: k}
		}
		return sums[k]
	}
	for key, a := range m.accounts { // sorted below
		if a.holders > 0 {
			a.settle(&m.prices, now)
		}
		u := at(key)
		u.Milli = a.milli
		u.add(Row{key, a.amount, a.unpriced, a.cost})
	}
	for key, r := range m.past {
		at(key).add(*r)
	}
	out := make([]Used, 0, len(sums))
	for _, u := range sums {
		out = append(out, *u)
	}
	slices.SortFunc(out, func(a, b Used) int { return a.Key.compare(b.Key) })
	return out
}

// Since is when the meter began to count.
func (m *Meter) Since() int64 { return m.since }

// Used is a row with what is held now, in thousandths of a device.
type Used struct {
	Key
	Milli                  int64
	Amount, Unpriced, Cost int64
}

func (u *Used) add(r Row) {
	u.Amount, u.Unpriced, u.Cost = add(u.Amount, r.Amount), add(u.Unpriced, r.Unpriced), add(u.Cost, r.Cost)
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
		old.Amount, old.Unpriced, old.Cost = add(old.Amount, a.amount), add(old.Unpriced, a.unpriced), add(old.Cost, a.cost)
		return
	}
}

// Sum adds rows up by the columns that are true in by; others are left empty. Rows that
// visible refuses are added to hidden instead.
func Sum(rows []Used, by Columns, visible func(namespace string) bool) (items []Used, hidden Used) {
	sums := map[Key]*Used{}
	for _, r := range rows {
		u := &hidden
		if visible(r.Namespace) {
			k := by.of(r.Key)
			if sums[k] == nil {
				sums[k] = &Used{Key: k}
			}
			u = sums[k]
		}
		u.Milli = add(u.Milli, r.Milli)
		u.add(Row{r.Key, r.Amount, r.Unpriced, r.Cost})
	}
	for _, u := range sums { // sorted below
		items = append(items, *u)
	}
	slices.SortFunc(items, func(a, b Used) int { return a.Key.compare(b.Key) })
	return items, hidden
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

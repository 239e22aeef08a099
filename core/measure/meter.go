package measure

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/tangram-dev/tangram/core/model"
)

// Key is what GPU hours are counted by.
type Key struct{ Queue, Namespace, User, Model string }

// Owner is the queue, namespace and user that are charged for a holder.
type Owner struct{ Queue, Namespace, User string }

// Hold is what a holder holds of one model, in thousandths of a device.
type Hold struct {
	Model model.GPUModel
	Milli int64
}

// Limits bound what a meter remembers.
type Limits struct {
	// Keys is how many accounts there are at most, PerNamespace how many of them one
	// namespace may have: no tenant can make the others' hours disappear into Other.
	Keys, PerNamespace int
	// Models is how many models are told apart.
	Models int
	// KeepFor is how long an account without holders stays, in milliseconds: long enough
	// to be read a last time.
	KeepFor int64
}

// DefaultLimits are the scheduler's.
func DefaultLimits() Limits {
	return Limits{Keys: 2000, PerNamespace: 200, Models: 64, KeepFor: 3_600_000}
}

// Meter counts GPU hours: what is held, times how long. Holders begin and end at given
// times, in milliseconds that do not go back; nothing is sampled, so the sum is exact.
// Not safe for concurrent use.
type Meter struct {
	limits   Limits
	prices   Prices
	models   *Names
	holders  map[model.HolderID]*holding
	accounts map[Key]*account
	// of counts the accounts of each namespace.
	of map[string]int
	// folded counts holders that were charged to Other.
	folded uint64
	// past are accounts that were dropped, bounded like accounts, pastOf how many of each
	// namespace; since is when the sums began.
	past   map[Key]*Row
	pastOf map[string]int
	since  int64
}

// holding is what one holder holds, and since when.
type holding struct {
	owner Owner
	holds []Hold
	keys  []Key // by hold
	since int64
	// spent is what it has used before it held what it holds now.
	spent int64
}

// account is one Key's sum.
type account struct {
	model model.GPUModel
	// milli is what its holders hold now, holders how many they are; at is until when
	// the sums are complete.
	milli   int64
	holders int
	at      int64
	// amount and unpriced are in thousandths times milliseconds, cost in millionths of
	// the currency; rest is what the last division left of it.
	amount, unpriced, cost int64
	rest                   uint64
}

// NewMeter returns a meter without holders.
func NewMeter(l Limits) *Meter {
	return &Meter{limits: l, models: NewNames(l.Models), holders: map[model.HolderID]*holding{}, accounts: map[Key]*account{}, of: map[string]int{}, past: map[Key]*Row{}, pastOf: map[string]int{}}
}

// SetPrices changes the prices from a time on; what was used before is charged with those
// that held then.
func (m *Meter) SetPrices(p Prices, now int64) {
	for _, a := range m.accounts { // each for itself
		a.settle(&m.prices, now)
	}
	m.prices = p
}

// Prices are those that hold now.
func (m *Meter) Prices() *Prices { return &m.prices }

// Has says whether a holder is metered.
func (m *Meter) Has(h model.HolderID) bool { return m.holders[h] != nil }

// Set says what a holder holds from a time on.
func (m *Meter) Set(h model.HolderID, owner Owner, holds []Hold, now int64) {
	old := m.holders[h]
	if old != nil && old.owner == owner && slices.Equal(old.holds, holds) {
		return
	}
	x := &holding{owner: owner, holds: holds, since: now}
	if old != nil {
		x.spent = old.used(now)
		m.End(h, now)
	}
	for _, hold := range holds {
		key := m.key(owner, hold.Model)
		a := m.accounts[key]
		if a == nil {
			a = &account{model: hold.Model, at: now}
			m.accounts[key] = a
			m.of[key.Namespace]++
		}
		a.settle(&m.prices, now)
		a.milli += hold.Milli
		a.holders++
		x.keys = append(x.keys, key)
	}
	m.holders[h] = x
}

// key is the account for what an owner holds: its own while there is room; else what is
// left of its namespace's room, for all of the namespace together; else Other's.
func (m *Meter) key(o Owner, of model.GPUModel) Key {
	name := m.models.Admit(ModelLabel(of))
	own := Key{o.Queue, o.Namespace, o.User, name}
	for _, s := range []string{o.Queue, o.Namespace, o.User} {
		if !printable(s) {
			own = Key{Other, Other, Other, name}
		}
	}
	room := func(k Key, total, each int) bool {
		return m.accounts[k] != nil || len(m.accounts) < total && m.of[k.Namespace] < each
	}
	if room(own, m.limits.Keys, m.limits.PerNamespace) {
		return own
	}
	m.folded++
	if all := (Key{Other, o.Namespace, Other, name}); room(all, m.limits.Keys, m.limits.PerNamespace+m.limits.Models) {
		return all
	}
	return Key{Other, Other, Other, name}
}

// End says that a holder holds nothing any more, and returns what it has used in all, in
// thousandths of a device times milliseconds.
func (m *Meter) End(h model.HolderID, now int64) int64 {
	x := m.holders[h]
	if x == nil {
		return 0
	}
	for i, key := range x.keys {
		a := m.accounts[key]
		a.settle(&m.prices, now)
		a.milli -= x.holds[i].Milli
		a.holders--
	}
	delete(m.holders, h)
	return x.used(now)
}

// Used is what a holder has used so far, in thousandths of a device times milliseconds.
func (m *Meter) Used(h model.HolderID, now int64) int64 {
	if x := m.holders[h]; x != nil {
		return x.used(now)
	}
	return 0
}

func (x *holding) used(now int64) int64 {
	sum := x.spent
	for _, hold := range x.holds {
		sum = add(sum, product(hold.Milli, now-x.since))
	}
	return sum
}

// Restart forgets all sums: what is counted from now on is this process's alone.
func (m *Meter) Restart(now int64) {
	m.past, m.pastOf, m.since = map[Key]*Row{}, map[string]int{}, now
	for key, a := range m.accounts { // each for itself
		*a = account{model: a.model, milli: a.milli, holders: a.holders, at: now}
		if a.holders == 0 {
			m.drop(key)
		}
	}
	for _, x := range m.holders {
		x.since, x.spent = now, 0
	}
}

// Row is one account, read.
type Row struct {
	Key
	// Amount and Unpriced are GPUs in thousandths times milliseconds; Cost is in
	// millionths of the currency.
	Amount, Unpriced, Cost int64
}

// Read returns all accounts, sorted, and drops those that have had no holder for long.
func (m *Meter) Read(now int64) []Row {
	out := make([]Row, 0, len(m.accounts))
	for key, a := range m.accounts { // sorted below
		if a.holders == 0 && now-a.at > m.limits.KeepFor {
			m.keep(key, a)
			m.drop(key)
			continue
		}
		if a.holders > 0 { // else at is since when it has none
			a.settle(&m.prices, now)
		}
		out = append(out, Row{key, a.amount, a.unpriced, a.cost})
	}
	slices.SortFunc(out, func(a, b Row) int { return a.Key.compare(b.Key) })
	m.models.Keep(func(name string) bool {
		return slices.ContainsFunc(out, func(r Row) bool { return r.Model == name })
	})
	return out
}

func (m *Meter) drop(key Key) {
	delete(m.accounts, key)
	if m.of[key.Namespace]--; m.of[key.Namespace] == 0 {
		delete(m.of, key.Namespace)
	}
}

// Folded counts holdings that were charged to Other.
func (m *Meter) Folded() uint64 { return m.folded }

func (k Key) compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Queue, o.Queue), cmp.Compare(k.Namespace, o.Namespace), cmp.Compare(k.User, o.User), cmp.Compare(k.Model, o.Model))
}

// hour is one GPU hour, in thousandths times milliseconds.
const hour = 1000 * 3_600_000

// settle brings the sums up to date.
func (a *account) settle(p *Prices, now int64) {
	if now <= a.at {
		return
	}
	used := product(a.milli, now-a.at)
	a.at = now
	a.amount = add(a.amount, used)
	micro, priced := p.Of(a.model)
	if !priced {
		a.unpriced = add(a.unpriced, used)
		return
	}
	// used * micro / hour without overflow, the remainder carried on.
	a.cost = add(a.cost, product(used/hour, micro))
	hi, lo := bits.Mul64(uint64(used%hour), uint64(micro))
	lo, carry := bits.Add64(lo, a.rest, 0)
	whole, rest := bits.Div64(hi+carry, lo, hour)
	a.cost, a.rest = add(a.cost, int64(whole)), rest
}

// product and add stop at the largest number; arguments are not negative.
func product(a, b int64) int64 {
	hi, lo := bits.Mul64(uint64(max(a, 0)), uint64(max(b, 0)))
	if hi > 0 || lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(lo)
}

func add(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

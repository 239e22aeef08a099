package reserve

import (
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/memo"
)

// TakesQuota says whether a gang that starts now, with its minimum, would leave a reserved
// one without quota when its time comes: of a queue, of one above both, or of a namespace.
func (b *Book) TakesQuota(k *cluster.Tracked, end int64) bool {
	if len(b.list) == 0 {
		return false
	}
	job, _ := b.cluster.Tree().Job(arbiter.JobID(k.ID))
	return b.takesQuotaWith(k, job.Demand, end)
}

func (b *Book) takesQuotaWith(k *cluster.Tracked, amounts arbiter.Amounts, end int64) bool {
	for _, r := range b.list {
		if r.gang == k.ID || r.until == 0 && r.at != memo.Never && end <= r.at || b.cluster.Gang(r.gang).Placed() > 0 {
			continue
		}
		if now := [2]uint64{b.memo.Steps(), b.memo.LayoutVersion()}; r.forecastAt != now {
			r.forecast, r.forecastAt = b.forecast(r, nil), now
		}
		forecast := r.forecast
		if b.Of(k.ID) != nil {
			forecast = b.forecast(r, k) // it must not count twice
		}
		if forecast.Crowds(arbiter.JobID(r.gang), arbiter.JobID(k.ID), amounts) {
			return true
		}
	}
	return false
}

// forecast is what will be in use at the time of a reservation: some have ended by
// then, and other reserved ones, but for one, have started. Where the
// time is not known: those have ended that are on its nodes.
func (b *Book) forecast(r *Reservation, but *cluster.Tracked) *arbiter.Forecast {
	var ended, started []arbiter.JobID
	for id, o := range b.cluster.Running() { // the order does not matter
		ends := r.until == 0 && r.at != memo.Never && o.Expected(b.memo.Now()) <= r.at
		for _, p := range o.Places() {
			ends = ends || r.at == memo.Never && r.Has(p.Node)
		}
		if ends {
			ended = append(ended, arbiter.JobID(id))
		}
	}
	for _, o := range b.list {
		if k := b.cluster.Gang(o.gang); o != r && k != but && o.at <= r.at && k.End(o.at) > r.at {
			started = append(started, arbiter.JobID(k.ID))
		}
	}
	return b.cluster.Tree().Forecast(ended, started)
}

// Limit lets a gang have no more members than leave reserved ones their quota. A gang that
// gets back members that it lost is not held up.
func (b *Book) Limit(k *cluster.Tracked, ask *gang.Ask, now int64) {
	if len(b.list) == 0 || ask.Allow == nil || k.Placed() > 0 && k.Missing() > 0 {
		return
	}
	allow, end := ask.Allow, k.End(now)
	ask.Allow = func(counts []int) bool {
		return allow(counts) && !b.takesQuotaWith(k, b.cluster.Amounts(k, counts), end)
	}
}

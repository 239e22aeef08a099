// Package arbiter decides which job goes next and how much each queue may use. It knows
// queues, quotas and jobs as sums of resources; it knows nothing of nodes and devices.
// Whether a job fits on nodes is for the caller to find out, offer by offer.
//
//	t, err := arbiter.NewTree(queues, total)
//	err = t.Submit(job)
//	for offer := range t.Candidates(now) {
//		if fits(offer.Job) {
//			offer.Place(nil) // charged at once; the next offer counts it
//		} else {
//			offer.NoCapacity()
//		}
//	}
//	t.Remove(job.ID) // it ended
//
// Five words: a queue's guarantee is kept for it, its capability is the most it
// may use, its share is what it is entitled to now, a job's demand is what it
// needs to start, and a wait is why it is not offered. A job that waits for quota
// is never offered; one that is offered and finds no place waits for capacity.
//
// Invariants, tested over random histories: what is placed never takes a queue
// above its capability, a namespace above its quota or into a guarantee of others;
// shares add up to no more than their parent's; charges are exact; the
// order of calls that commute does not matter; a job over age is passed only by
// older ones of its queue.
//
// The tree is not safe for concurrent use; the caller brings the lock. Time is
// given. All arithmetic is in integers, and comparisons of shares are exact.
//
// Read queue.go, policy.go, job.go and amounts.go, the values, with validate.go for what is
// refused; tree.go with hierarchy.go, its queues; dictionary.go for which resources are counted, and
// usage.go for what is charged; share.go with divide.go and rational.go for what queues are entitled to, and
// balance.go for that over time; wait.go for what keeps a job waiting; pass.go
// with modes.go for the order of queues, and backlog.go with list.go, walk.go and turns.go
// for that of jobs; reclaim.go for what may be taken back, forecast.go for what will be free.
// account.go is queues in numbers; runtimes.go learns how long
// jobs run; saved.go is what outlives a restart.
package arbiter

package replay

import (
	"slices"

	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
)

// answers are the answers of Facts as a recording has them so far. What was never told is
// "nothing is in the way".
type answers struct {
	may     map[model.Shape]map[model.NodeID]explain.Refusal
	apart   map[[2]model.Shape]string
	budgets map[model.HolderID][]cluster.Budget
	// count is how many of them there are.
	count int
}

func newAnswers() *answers {
	return &answers{may: map[model.Shape]map[model.NodeID]explain.Refusal{}, apart: map[[2]model.Shape]string{}, budgets: map[model.HolderID][]cluster.Budget{}}
}

// May, Apart and Budgets answer as they did when the recording was made.
func (a *answers) May(s model.Shape, n model.NodeID) *explain.Refusal {
	if r, refused := a.may[s][n]; refused {
		return &r
	}
	return nil
}

func (a *answers) Apart(x, y model.Shape) string { return a.apart[[2]model.Shape{x, y}] }

func (a *answers) Budgets(h model.HolderID) []cluster.Budget { return a.budgets[h] }

// learn takes over answers of an entry.
func (a *answers) learn(from *Answers) {
	for _, x := range from.May {
		a.setMay(x.Shape, x.Node, x.Why)
	}
	for _, x := range from.Apart {
		a.apart[[2]model.Shape{x.A, x.B}] = x.Why
	}
	for _, x := range from.Budgets {
		a.budgets[x.Holder] = x.Budgets
	}
}

func (a *answers) setMay(s model.Shape, n model.NodeID, why *explain.Refusal) {
	of := a.may[s]
	if of == nil {
		of = map[model.NodeID]explain.Refusal{}
		a.may[s] = of
	}
	if why == nil {
		delete(of, n)
		return
	}
	of[n] = *why
	a.count++
}

// listening answers as the real Facts, and notes what is another answer than before.
type listening struct {
	real  cluster.Facts
	known *answers
	fresh Answers
}

// May notes why a node does not take a shape.
func (l *listening) May(s model.Shape, n model.NodeID) *explain.Refusal {
	now, before := l.real.May(s, n), l.known.May(s, n)
	if (now == nil) != (before == nil) || now != nil && *now != *before {
		l.known.setMay(s, n, now)
		l.fresh.May = append(l.fresh.May, MayAnswer{s, n, now})
	}
	return now
}

// Apart notes why two shapes may not share a node.
func (l *listening) Apart(a, b model.Shape) string {
	now := l.real.Apart(a, b)
	if key := [2]model.Shape{a, b}; now != l.known.apart[key] {
		l.known.apart[key] = now
		l.fresh.Apart = append(l.fresh.Apart, ApartAnswer{a, b, now})
	}
	return now
}

// Budgets notes the budgets of a holder.
func (l *listening) Budgets(h model.HolderID) []cluster.Budget {
	now := l.real.Budgets(h)
	if !slices.Equal(now, l.known.budgets[h]) {
		l.known.budgets[h] = now
		l.fresh.Budgets = append(l.fresh.Budgets, BudgetAnswer{h, now})
	}
	return now
}

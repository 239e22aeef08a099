package answer

import "github.com/tangram-dev/tangram/internal/kube/metrics"

// State returns what gauges show: several scrapers cost no more than one. It holds the
// engine's lock for parts of a census, one after the other, so that decisions wait for one
// part at most; what can be computed later is not computed under it.
func (a *Answers) State() metrics.State {
	return a.state.show(a, ages{a.Ages.State, a.Ages.State}, a.drawState, nil)
}

func (a *Answers) drawState() metrics.State {
	s := metrics.State{At: a.Clock()}
	look := func(f func(*View)) { a.Reader.Look("metrics", f) }
	look(func(v *View) { s.Census = v.Core.Figures.CountWork(v.Condition) })
	look(func(v *View) {
		s.Census.Fleet = v.Core.Figures.CountDevices(v.Condition, v.Observer.Idle(), s.At.UnixNano())
	})
	look(func(v *View) {
		if m := v.Observer.Meter(); m != nil {
			s.Usage, s.Folded, s.Prices = m.Read(s.At.UnixMilli()), m.Folded(), *m.Prices()
		}
	})
	return s
}

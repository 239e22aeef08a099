package answer

import (
	"slices"
	"time"

	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
)

// Knowledge is how a start is known.
type Knowledge uint8

// How a start is known.
const (
	// NotKnown: some runtime before it is not known, or it waits for something that is not
	// a matter of time.
	NotKnown Knowledge = iota
	// Now: it has a place.
	Now
	// Reserved: nodes are kept for it from a known time on.
	Reserved
	// Foreseen: by the expected ends of what runs and waits before it.
	Foreseen
	// NotEver: not as things are.
	NotEver
)

// Expectation is when a gang is expected to start.
type Expectation struct {
	Known Knowledge
	// At is in nanoseconds, for Reserved and Foreseen.
	At int64
	// Because says what the time hangs on.
	Because string
	// Nodes that it will use; may be empty.
	Nodes []model.NodeID
}

// Expect says when a gang that waits for a reason is expected to start, as far as that is
// known without looking into the future: a start that is NotKnown for want of a forecast
// has no Because.
func (a Reasons) Expect(id cluster.ID, r *explain.Reason) Expectation {
	k := a.cluster.Gang(id)
	switch {
	case k == nil:
		return Expectation{}
	case !r.Is() || k.Placed() > 0 && k.Missing() == 0:
		return Expectation{Known: Now, Because: "all members that it needs have a place"}
	}
	if x := a.book.Of(id); x != nil {
		nodes := slices.Clone(x.Nodes())
		switch {
		case x.Freeing():
			return Expectation{Known: Reserved, At: max(x.Until(), a.memo.Now()), Because: "pods that make room for it terminate by then", Nodes: nodes}
		case x.At() != 0:
			return Expectation{Known: Reserved, At: max(x.At(), a.memo.Now()), Because: "what runs on the nodes that are kept for it is expected to end by then", Nodes: nodes}
		}
		return Expectation{Because: "nodes are kept for it, and it is not known how long the pods run that are there", Nodes: nodes}
	}
	switch {
	case r.Never:
		return Expectation{Known: NotEver, Because: "it asks for more than nodes or limits can give"}
	case r.Code == explain.Members:
		return Expectation{Because: "its members have to be created"}
	case r.Code == explain.BackOff && k.Memo.Rests(a.memo.Now()):
		return Expectation{Because: "its last start failed, and it is tried again at " + time.Unix(0, k.Memo.RestUntil()).UTC().Format("15:04:05 MST")}
	case r.Code.Permanent(), r.Code == explain.Nodes && r.Nodes.Nodes() > 0 && r.Nodes.Fit() == 0 && r.Nodes.Permanent():
		return Expectation{Known: NotEver, Because: "the end of other pods does not help"}
	}
	return Expectation{}
}

package answer

import (
	"iter"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/release"
)

// Of returns a holder's release; false when it has none, or not yet.
func (a Releases) Of(h model.HolderID) (release.Release, bool) { return a.releases.Release(h) }

// Pauses says whether a holder has no release for a moment only.
func (a Releases) Pauses(h model.HolderID) bool { return a.releases.Pauses(h) }

// Holds says whether a ticket is good and the ledger still gives the holder exactly the
// devices of its release: the last check before the Binding is written.
func (a Releases) Holds(h model.HolderID, t release.Ticket) bool { return a.releases.Holds(h, t) }

// Open is how many members have a release and are not bound.
func (a Releases) Open() int { return a.releases.Open() }

// Each are the members that have a release and are not bound, sorted.
func (a Releases) Each() iter.Seq[release.Release] { return a.releases.Each() }

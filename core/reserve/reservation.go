package reserve

import (
	"slices"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/memo"
	"github.com/tangram-dev/tangram/core/model"
)

// Reservation is nodes kept for a gang from a time on. Only this package changes it.
type Reservation struct {
	gang  cluster.ID
	at    int64          // memo.Never when it is not known
	nodes []model.NodeID // sorted
	// until, when not 0, says that the nodes are being freed for the gang: no other
	// gang may use them before then.
	until int64
	// short: a victim stays after all, and others must be found.
	short bool
	// doubtful: nodes have changed since, so it is found anew before others are offered
	// anything.
	doubtful bool
	// tried is RoomVersion plus one when the gang was last tried on them.
	tried uint64
	// forecast is what queues will use by then, as of a step and of LayoutVersion.
	forecast   *arbiter.Forecast
	forecastAt [2]uint64
}

// Gang is the gang that the nodes are kept for.
func (r *Reservation) Gang() cluster.ID { return r.gang }

// At is from when on; 0 when that is not known.
func (r *Reservation) At() int64 {
	if r.at == memo.Never {
		return 0
	}
	return r.at
}

// Freeing says whether the nodes are being freed for the gang: victims leave.
func (r *Reservation) Freeing() bool { return r.until > 0 }

// Until is when the nodes are given up that are being freed; 0 when they are not.
func (r *Reservation) Until() int64 { return r.until }

// Short says whether a victim stays after all, and others must be found.
func (r *Reservation) Short() bool { return r.short }

// Nodes are the nodes, sorted; not to be changed.
func (r *Reservation) Nodes() []model.NodeID { return r.nodes }

// Has says whether a node is kept.
func (r *Reservation) Has(id model.NodeID) bool {
	_, found := slices.BinarySearch(r.nodes, id)
	return found
}

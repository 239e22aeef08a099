package release

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tangram-dev/tangram/core/memo"
	"github.com/tangram-dev/tangram/core/model"
)

// Verify checks what the doc comment of the package promises. Cost: the releases.
func (d *Register) Verify() error {
	tickets := map[Ticket]model.HolderID{}
	for _, h := range slices.Sorted(maps.Keys(d.releases)) {
		r := d.releases[h]
		switch other, twice := tickets[r.Ticket]; {
		case twice:
			return fmt.Errorf("members %s and %s have the same ticket", other, h)
		case r.Ticket > d.tickets:
			return fmt.Errorf("member %s has a ticket that was never given", h)
		case !slices.Contains(r.batch.members, h):
			return fmt.Errorf("member %s is not in its batch", h)
		case !r.seen && d.memo.Now() > memo.Later(r.batch.since, int64(d.options.BatchTimeout)+2*int64(d.options.Timing.NudgeAfter)):
			return fmt.Errorf("gang %s: member %s was released and does not come to its scheduling cycle", r.Gang, h)
		}
		tickets[r.Ticket] = h
	}
	return nil
}

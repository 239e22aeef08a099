// Package place does all that a pure package may.
package place

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
)

// ErrFull and errTwo are errors.
var (
	ErrFull = errors.New("full")
	errTwo  = fmt.Errorf("two: %w", ErrFull)
)

var _ fmt.Stringer = Plan{}

// order is a table.
var order = []struct {
	name  string
	after time.Duration
}{{"a", time.Second}, {"b", 2 * time.Minute}}

// Plan holds a time that its caller read.
type Plan struct{ At time.Time }

func (p Plan) String() string { return p.At.String() }

// Due compares times.
func (p Plan) Due(now time.Time) bool {
	return now.Sub(p.At) > order[0].after && cmp.Compare(1, 2) < 0 && errTwo != nil && ledger.New != nil && model.Age != nil
}

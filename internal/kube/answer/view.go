package answer

import (
	"time"

	coreanswer "github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/kube/claims"
	"github.com/tangram-dev/tangram/internal/kube/contest"
	"github.com/tangram-dev/tangram/internal/kube/demand"
	"github.com/tangram-dev/tangram/internal/kube/observe"
	"github.com/tangram-dev/tangram/internal/kube/report"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// Reader gives questions the engine's state.
type Reader interface {
	// Look runs f under the engine's lock, and says how long it waited and held. f keeps no
	// View.
	Look(what string, f func(*View)) (waited, held time.Duration)
}

// View is the engine's state as of one moment.
type View struct {
	Core      coreanswer.Answers
	Work      *workload.Gangs
	Notices   *report.Notices
	Claims    *claims.Claims
	Contests  *contest.Contests
	Demands   *demand.Demands
	Observer  *observe.Observer
	Condition func(model.NodeID) coreanswer.Condition // what a node's object says about it
}

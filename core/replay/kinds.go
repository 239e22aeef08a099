package replay

import (
	"encoding/json"

	"github.com/tangram-dev/tangram/core/engine"
)

// kind is one kind of event in recordings.
type kind struct {
	name string
	is   func(engine.Event) bool
	read func([]byte) (engine.Event, error)
}

// row is the kind of an event type. The name is part of the format: it stays when the type
// gets another name.
func row[E engine.Event](name string) kind {
	return kind{
		name: name,
		is:   func(e engine.Event) bool { _, ok := e.(E); return ok },
		read: func(text []byte) (engine.Event, error) {
			var e E
			err := json.Unmarshal(text, &e)
			return e, err
		},
	}
}

// kinds has one row per kind of event. TestKinds names a kind that is missing.
var kinds = []kind{
	row[engine.NodeSet]("node"),
	row[engine.NodeGone]("nodeGone"),
	row[engine.NodeRulesChanged]("nodeRules"),
	row[engine.RulesChanged]("rules"),
	row[engine.FleetCounted]("fleetCounted"),
	row[engine.QueuesSet]("queues"),
	row[engine.QuotasSet]("quotas"),
	row[engine.Arrived]("arrived"),
	row[engine.Submitted]("submitted"),
	row[engine.Withdrawn]("withdrawn"),
	row[engine.Bound]("bound"),
	row[engine.Ended]("ended"),
	row[engine.Leaving]("leaving"),
	row[engine.EvictionRefused]("evictionRefused"),
	row[engine.StartUndone]("startUndone"),
	row[engine.CycleBegan]("cycleBegan"),
	row[engine.NodeTook]("nodeTook"),
	row[engine.NodeRefused]("nodeRefused"),
	row[engine.AllNodesRefused]("allNodesRefused"),
	row[engine.NodeChosen]("nodeChosen"),
	row[engine.DevicesChosen]("devicesChosen"),
	row[engine.MemberReserved]("memberReserved"),
	row[engine.StartFailed]("startFailed"),
	row[engine.Assumed]("assumed"),
	row[engine.ClaimAssumed]("claimAssumed"),
	row[engine.Unassumed]("unassumed"),
	row[engine.Configured]("configured"),
	row[engine.Suspended]("suspended"),
	row[engine.Resumed]("resumed"),
	row[engine.Restored]("restored"),
	row[engine.PassingRestored]("passingRestored"),
	row[engine.CountersRestored]("countersRestored"),
}

func kindOf(e engine.Event) *kind {
	for i := range kinds {
		if kinds[i].is(e) {
			return &kinds[i]
		}
	}
	return nil
}

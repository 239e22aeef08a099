package answer

import (
	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/memo"
	"github.com/tangram-dev/tangram/core/preempt"
	"github.com/tangram-dev/tangram/core/release"
	"github.com/tangram-dev/tangram/core/reserve"
)

// Answers are all questions, by what they are about.
type Answers struct {
	// Gangs: what is known of gangs and their members.
	Gangs Gangs
	// Nodes: nodes, and which holder has what of them.
	Nodes Nodes
	// Queues: what they have and use.
	Queues Queues
	// Figures: the state in sums.
	Figures Figures
	// Reasons: why a gang waits, and until when.
	Reasons Reasons
	// Shortages: nodes that are missing.
	Shortages Shortages
	// Releases: members on their way to a Binding.
	Releases Releases
}

// state is what answers are found from.
type state struct {
	cluster   *cluster.Cluster
	memo      *memo.Memo
	book      *reserve.Book
	releases  *release.Register
	preemptor *preempt.Preemptor
}

// Gangs answers about gangs.
type Gangs struct{ *state }

// Nodes answers about nodes and holders.
type Nodes struct{ *state }

// Queues answers about queues.
type Queues struct{ *state }

// Figures answers in sums.
type Figures struct{ *state }

// Reasons answers why a gang waits.
type Reasons struct{ *state }

// Shortages answers which nodes are missing.
type Shortages struct{ *state }

// Releases answers about members on their way to a Binding.
type Releases struct{ *state }

// New returns answers from the parts of an engine.
func New(c *cluster.Cluster, b *reserve.Book, r *release.Register, p *preempt.Preemptor) Answers {
	s := &state{c, c.Memo(), b, r, p}
	return Answers{Gangs{s}, Nodes{s}, Queues{s}, Figures{s}, Reasons{s}, Shortages{s}, Releases{s}}
}

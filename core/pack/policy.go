package pack

import "github.com/tangram-dev/tangram/core/model"

// Policy ranks placements. An Index asks it, keeps the answers and asks again
// only about what changed. A policy is used by one Index only; it may keep
// data about nodes, but answers from its arguments and that alone.
type Policy interface {
	// Arrive counts a request, placed or not. True says that all ratings are
	// void: Enter is then called for every node again.
	Arrive(c *Class, nodes int) (void bool)
	// Reset starts anew, with the capacities of all nodes; Enter calls follow.
	Reset(fleet []Kind)
	// Enter and Leave bracket each change of a node.
	Enter(n *Node)
	Leave(n *Node)
	// Rate is the rating of the class on a node it fits on.
	Rate(c *Class, n *Node) Rating
	// Begin is called before Shift calls of one decision.
	Begin(c *Class)
	// Shift is what is added to the rating of all nodes of a bucket at this moment.
	Shift(c *Class, bucket int) Shift
}

// Rating is the place of a node in the order of one class.
type Rating struct {
	// Bucket groups nodes whose ratings shift alike. Small, dense.
	Bucket uint16
	// Cost is the smaller the better, at most MaxCost.
	Cost uint16
	// Slot is the device of a share; otherwise 0.
	Slot uint8
}

// MaxCost bounds Rating.Cost.
const MaxCost = 1<<13 - 1

// Shift is added to the ratings of a bucket.
type Shift struct {
	Cost int
	// Tie decides between equal costs; smaller wins.
	Tie int
}

// Node is one node as a policy sees it.
type Node struct {
	Shape Shape
	full  int // unused GPUs

	// What the policy keeps.
	worth, potential int64
	kind             int
}

// devices are those a rating chose.
func (n *Node) devices(c *Class, r Rating) model.Mask {
	switch {
	case c.GPUs == 0:
		return 0
	case c.Milli == Whole:
		return n.Shape.FirstWhole(int(c.GPUs))
	default:
		return model.Mask(0).With(int(r.Slot))
	}
}

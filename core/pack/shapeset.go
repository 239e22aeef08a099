package pack

// shapeSet numbers the shapes that nodes have at this moment, so that nodes of equal shape
// are rated once when all are: most of a large fleet is alike, above all while it
// is empty. Numbers of shapes that no node has any more are given out again, so there are
// never more of them than nodes.
type shapeSet struct {
	numbers map[Shape]int32
	nodes   []int32 // by number: how many have the shape
	spare   []int32
}

// enter counts a node with the shape and returns its number.
func (t *shapeSet) enter(s *Shape) int32 {
	number, ok := t.numbers[*s]
	if !ok {
		if t.numbers == nil {
			t.numbers = map[Shape]int32{}
		}
		if n := len(t.spare); n > 0 {
			number, t.spare = t.spare[n-1], t.spare[:n-1]
		} else {
			number = int32(len(t.nodes))
			t.nodes = append(t.nodes, 0)
		}
		t.numbers[*s] = number
	}
	t.nodes[number]++
	return number
}

// leave undoes enter.
func (t *shapeSet) leave(s *Shape, number int32) {
	if t.nodes[number]--; t.nodes[number] == 0 {
		delete(t.numbers, *s)
		t.spare = append(t.spare, number)
	}
}

// verdicts are the ratings of one class by number of shape, while all nodes are
// rated. The memory is kept from one use to the next.
type verdicts struct {
	round uint32
	each  []verdict
}

type verdict struct {
	round uint32
	Rating
}

// begin forgets all.
func (v *verdicts) begin(shapes int) {
	if v.round++; v.round == 0 || len(v.each) < shapes {
		v.round, v.each = 1, make([]verdict, shapes+shapes/4)
	}
}

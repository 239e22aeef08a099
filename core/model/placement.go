package model

// Placement is the direction in which devices or nodes are filled.
type Placement uint8

// Auto is the default: the packing objective decides between nodes, and parts fill the
// fullest device. Binpack fills what is used before it opens the next; Spread does the
// opposite.
const (
	Auto Placement = iota
	Binpack
	Spread
)

// String is the placement's name in annotations and configuration.
func (p Placement) String() string {
	if names := [...]string{"auto", "binpack", "spread"}; p <= Spread {
		return names[p]
	}
	return "auto"
}

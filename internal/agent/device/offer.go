package device

// Offer is what a node sells as one extended resource. An offer without devices says
// that the resource is known and none of it is left.
type Offer struct {
	Resource string
	Devices  []Sold
}

// Sold is one unit of a resource. Its ID says what it is; see package records.
type Sold struct {
	ID      string
	Healthy bool
	// NUMA is the NUMA node, -1 when unknown.
	NUMA int
}

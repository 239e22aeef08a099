// Package grant decides what kubelet is told when it starts a container on devices: it
// refuses what would give a device twice or promise more of it than there is, and
// answers in the form that the container runtime understands. Who holds what it asks of
// package records; what makes a share real is passed in.
//
// Reading order: granter.go (the two calls), answer.go (the forms of an answer),
// amounts.go (sums of what was promised), offers.go and seller.go (what a node sells, and
// when).
package grant

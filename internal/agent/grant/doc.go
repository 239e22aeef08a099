// Package grant decides what kubelet is told when it starts a container on devices: it
// refuses what would give a device twice or promise more of it than there is, and
// answers in the form that the container runtime understands. Which container holds what is
// known to package records; what makes a share real is passed in.
//
// Reading order: granter.go (the two calls, the forms of an answer, sums of what was promised),
// offers.go (what a node sells, and when).
package grant

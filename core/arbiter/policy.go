package arbiter

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Policy is the order of jobs inside one queue.
type Policy uint8

// Policies. All of them end in (submitted, ID), so every order is total.
const (
	// FIFO: first submitted, first offered.
	FIFO Policy = iota
	// Priority: the highest priority first, then FIFO.
	Priority
	// ShortestFirst: the shortest expected runtime first, then FIFO. A job of
	// unknown runtime comes after all others.
	ShortestFirst
	// RoundRobin: users take turns, the one served longest ago first; a user's own
	// jobs by priority, then FIFO.
	RoundRobin

	numPolicies
)

// policyRow is what is known of a policy.
type policyRow struct {
	// name is the policy's word in configuration, about what it does, to be read after
	// "jobs go".
	name, about string
	// rank is a job's position before submission and ID decide, the smallest first; nil:
	// these decide alone.
	rank func(*Job) int64
	// turns: users take turns, and rank is that among one user's jobs.
	turns bool
}

// policies has one row per policy: all that the rest of the code and the documents know of
// it. A test fails for a policy without a row.
var policies = [numPolicies]policyRow{
	FIFO:          {name: "fifo", about: "by submission"},
	Priority:      {name: "priority", about: "by priority, then submission", rank: byPriority},
	ShortestFirst: {name: "sjf", about: "by expected runtime, the shortest first, unknown ones last", rank: byRuntime},
	RoundRobin:    {name: "roundrobin", about: "by user, the one served longest ago first; a user's jobs by priority", rank: byPriority, turns: true},
}

func byPriority(j *Job) int64 { return -int64(j.Priority) }

func byRuntime(j *Job) int64 {
	if j.ExpectedRuntime == 0 {
		return math.MaxInt64
	}
	return int64(j.ExpectedRuntime)
}

// rank is a job's position by the policy.
func (p Policy) rank(j *Job) int64 {
	if by := policies[p].rank; by != nil {
		return by(j)
	}
	return 0
}

// Policies are all policies, in the order in which they are listed for readers.
func Policies() []Policy {
	out := make([]Policy, numPolicies)
	for p := range numPolicies {
		out[p] = p
	}
	return out
}

// PolicyChoice names all policies: "fifo, priority or sjf", for help and messages.
func PolicyChoice() string {
	names := make([]string, numPolicies)
	for p := range policies {
		names[p] = policies[p].name
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// String is the policy's name in configuration.
func (p Policy) String() string {
	if p >= numPolicies {
		return "unknown"
	}
	return policies[p].name
}

// About says what the policy does, to be read after "jobs go".
func (p Policy) About() string { return policies[p].about }

// ParsePolicy is the reverse of String; an empty name is FIFO. The error names the choice.
func ParsePolicy(name string) (Policy, error) {
	if name == "" {
		return FIFO, nil
	}
	if p := slices.IndexFunc(policies[:], func(r policyRow) bool { return r.name == name }); p >= 0 {
		return Policy(p), nil
	}
	return FIFO, fmt.Errorf("%q is not %s", name, PolicyChoice())
}

package answer

import "github.com/tangram-dev/tangram/core/arbiter"

// Accounts is what queues have, use and are owed, parents before children. Cost: queues times
// resources.
func (a Queues) Accounts() []arbiter.Account { return a.cluster.Tree().Accounts() }

// Takes says whether a queue takes jobs of a namespace.
func (a Queues) Takes(queue, namespace string) bool { return a.cluster.Tree().Takes(queue, namespace) }

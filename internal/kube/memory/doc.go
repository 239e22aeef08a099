// Package memory keeps what the scheduler has learned in one ConfigMap, so that a restart
// or a failover does not lose it. What the bytes mean is core/state's business.
//
// A ConfigMap, not a kind of our own: it is there in every cluster, also where none of our
// CRDs is installed; it has no schema that a new version would have to migrate; and the
// right to it can be given by name. The object is made with the scheduler's role
// (config/rbac.yaml), so that the scheduler needs no right to create any.
//
// The object is a cache, as all of the scheduler's memory is: nothing breaks when it is
// lost. So an object that cannot be read is ignored, with one line in the log, and
// nothing waits for it.
package memory

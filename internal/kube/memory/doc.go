// Package memory keeps what the scheduler has learned in one ConfigMap, so that a restart
// or a failover does not lose it. What the bytes mean is core/state's business.
//
// A ConfigMap, not a kind of our own: it needs no CRD and no schema to migrate, and the right
// to it can be given by name. It is made with the scheduler's role (config/rbac.yaml). It is a
// cache: one that cannot be read is ignored, with one line in the log, and nothing waits for it.
package memory

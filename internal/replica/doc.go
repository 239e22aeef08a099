// Package replica answers questions on a copy of the scheduler's state: what would become
// of a manifest (whatif), when waiting gangs are expected to start (forecast), and both of
// them elsewhere, from a dump. Nothing here changes the cluster or holds up the scheduler:
// a copy is made of objects that informers share and of what the engine knows beside them
// (internal/kube/engine.Snapshot), and it is the engine's own code that decides on it.
//
//	state.go     a copy, from the live engine or from a dump
//	dump.go      the dump's format; reduce.go what is left out of it
//	manifest.go  a manifest, read and completed as the API server would; aliases.go
//	             bounds its YAML aliases
//	expand.go    the pods that controllers make of objects; operators.go those of others
//	replica.go   a copy: the engine over stores that its owner fills
//	run.go       a copy that is stepped through time
//	whatif.go    what becomes of a manifest
//	forecast.go  expected starts; service.go who may ask how often
package replica

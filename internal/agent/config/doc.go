// Package config reads the agent's settings: NVIDIA device plugin's configuration file
// (version v1), its environment variables and its command line flags, in that order of
// growing precedence, and flags of our own.
//
// What the NVIDIA plugin would ignore or repair in silence is refused here, with the
// path of the field and what to write instead: a node that sells other resources than
// its owner believes is worse than an agent that does not start. Settings that mean
// nothing to this agent are accepted and listed, so that a file written for the NVIDIA
// plugin works unchanged.
//
// It knows no driver, no cluster and no kubelet.
//
// Read in this order: config.go (the result), settings.go (the table of flags and
// variables), file.go (the file's fields), check.go (what does not go together), load.go.
package config

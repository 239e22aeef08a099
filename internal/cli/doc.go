// Package cli is the tangram command, also `kubectl tangram`: what asks the scheduler
// (internal/cli/see), diagnose, migrate, version, and the commands that cmd/tangram adds
// (lab/cli).
//
// It composes and prints; it decides nothing. Errors are returned with their full
// text and printed once, by Main.
//
// Reading order: main.go, root.go, offline.go (questions on a dump), look.go and cluster.go
// (what diagnose and migrate read), diagnose.go, migrate.go, replay.go (recordings).
package cli

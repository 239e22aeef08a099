// Package ground chooses on which nodes a search is made. In a large fleet a search for
// victims or for an earliest start among all that runs would take seconds, and every decision
// waits for it. So it is made on some nodes at a time: those first that look best by a count
// of devices alone. When nothing is found there, the next attempt looks at the next ones, and
// an attempt has failed when all have been looked at.
//
// It has no state: which attempt is the next one, its callers remember.
//
// Read ground.go (cutting sites into grounds), then sites.go (what a node could give).
package ground

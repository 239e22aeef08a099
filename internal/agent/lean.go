package agent

import (
	"os"
	"runtime"
	"runtime/debug"
)

// stayLean makes Go use less memory, for a process that stands for one node: it has work
// for a few milliseconds every ten seconds, and must not cost the node's pods anything. By
// itself Go prepares for as many threads at a time as the node has processors, with caches
// for each and memory that the driver's library keeps for each, and lets the heap double
// before it collects. Who sets GOMAXPROCS or GOGC has decided otherwise.
func stayLean() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(min(runtime.GOMAXPROCS(0), 2))
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(40)
	}
}

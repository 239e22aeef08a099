package agent

import (
	"os"
	"runtime"
	"runtime/debug"
	"time"
)

// settled is when what an agent needs once, at its start, is garbage.
const settled = 30 * time.Second

// stayLean makes Go use less memory, for a process that stands for one node: it has work
// for a few milliseconds every ten seconds, and must not cost the node's pods anything. By
// itself Go prepares for as many threads at a time as the node has processors, with caches
// for each and memory that the driver's library keeps for each, and lets the heap double
// before it collects. Calls of the driver do not keep other work from going on. The
// environment variables GOMAXPROCS and GOGC override this.
func stayLean() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(40)
	}
	time.AfterFunc(settled, debug.FreeOSMemory)
}

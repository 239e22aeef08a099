package sim

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
)

// generatedGangs are the sizes of generated jobs, with how often.
var generatedGangs = []struct{ gpus, weight int }{{1, 70}, {2, 8}, {4, 8}, {8, 9}, {12, 1}, {16, 3}, {32, 1}}

// generatedQueues are the queues of generated jobs: a few submit most.
var generatedQueues = []struct {
	name   string
	weight int
}{{"vision", 50}, {"speech", 20}, {"ads", 15}, {"search", 8}, {"maps", 5}, {"robots", 2}}

// GenerateJobs writes a random timed trace, the same for the same seed. Jobs arrive as a
// Poisson process, on average every ten minutes; runtimes are log-normal with a median of
// half an hour, a few run for days. It is for tests and for trying things out.
func GenerateJobs(out io.Writer, jobs int, seed uint64) error {
	random := rand.New(rand.NewPCG(seed, 0))
	w := bufio.NewWriter(out)
	fmt.Fprintln(w, "timestamp,duration,num_gpus,gpu_time,cluster")
	at := 0.0
	for range jobs {
		at += random.ExpFloat64() * 600
		duration := math.Round(min(max(1800*math.Exp(2*random.NormFloat64()), 1), 1e6))
		gpus := generatedGangs[weighted(random, len(generatedGangs), func(i int) int { return generatedGangs[i].weight })].gpus
		queue := generatedQueues[weighted(random, len(generatedQueues), func(i int) int { return generatedQueues[i].weight })].name
		fmt.Fprintf(w, "%.0f,%.0f,%d,%.0f,%s\n", at, duration, gpus, duration*float64(gpus), queue)
	}
	return w.Flush()
}

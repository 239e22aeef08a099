package sim

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
)

// generatedKind is a kind of node of a generated fleet.
type generatedKind struct {
	model       string
	gpus, cores int
	gib         int
	weight      int
}

// generatedKinds are few and unlike each other, as in real fleets: many large
// nodes of a common model, small ones with much CPU, some with little, and a
// scarce model that the largest requests need.
var generatedKinds = []generatedKind{
	{"L40", 8, 96, 384, 45}, {"T4", 2, 104, 512, 30}, {"P4", 2, 16, 120, 10}, {"A100", 8, 128, 768, 5}, {"V100", 4, 48, 368, 8}, {"V100", 1, 8, 32, 2},
}

// generatedSizes are the parts of a GPU that shares ask for, with how often.
var generatedSizes = []struct{ milli, weight int }{{810, 35}, {470, 24}, {320, 11}, {650, 8}, {230, 5}, {160, 3}, {550, 3}, {110, 1}}

// Size is that of a generated trace.
type Size struct{ Nodes, Pods int }

// Generate writes a random trace in the openb format, the same for the same seed. It
// is for tests and for trying things out: figures from it say nothing about real fleets.
func Generate(nodes, pods io.Writer, size Size, seed uint64) error {
	random := rand.New(rand.NewPCG(seed, 0))
	w := bufio.NewWriter(nodes)
	fmt.Fprintln(w, "sn,cpu_milli,memory_mib,gpu,model")
	for i := range size.Nodes {
		k := generatedKinds[weighted(random, len(generatedKinds), func(i int) int { return generatedKinds[i].weight })]
		fmt.Fprintf(w, "node-%04d,%d,%d,%d,%s\n", i, k.cores*1000, k.gib*1024, k.gpus, k.model)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	w = bufio.NewWriter(pods)
	fmt.Fprintln(w, "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time")
	for i := range size.Pods {
		p := generatedPod(random)
		fmt.Fprintf(w, "pod-%04d,%d,%d,%d,%d,%s,LS,Running,%d,%d,%d\n", i, p.cores*1000, p.gib*1024, p.gpus, p.milli, p.spec, i, i+600, i)
	}
	return w.Flush()
}

type generatedRow struct {
	cores, gib, gpus, milli int
	spec                    string
}

// generatedPod draws a request: shares and single GPUs mostly, some without GPU,
// few with many, a tenth tied to a model.
func generatedPod(random *rand.Rand) generatedRow {
	pick := func(values ...int) int { return values[random.IntN(len(values))] }
	var p generatedRow
	switch roll := random.IntN(100); {
	case roll < 13:
		return generatedRow{cores: pick(8, 12, 16, 32), gib: pick(30, 50, 64)}
	case roll < 50:
		size := generatedSizes[weighted(random, len(generatedSizes), func(i int) int { return generatedSizes[i].weight })]
		p = generatedRow{cores: pick(3, 4, 6, 12), gib: pick(6, 15, 46), gpus: 1, milli: size.milli}
	case roll < 97:
		p = generatedRow{cores: pick(4, 8, 11, 18), gib: pick(6, 47, 76), gpus: 1, milli: 1000}
	case roll < 98:
		return generatedRow{cores: pick(6, 16), gib: 64, gpus: 2, milli: 1000}
	case roll < 99:
		return generatedRow{cores: pick(32, 60), gib: 128, gpus: 4, milli: 1000}
	default:
		return generatedRow{cores: pick(64, 88, 120), gib: pick(256, 320, 640), gpus: 8, milli: 1000}
	}
	switch random.IntN(30) {
	case 0:
		p.spec = "V100"
	case 1:
		p.spec = "T4"
	case 2:
		p.spec = "A100|V100"
	}
	return p
}

// weighted draws an index in proportion to its weight.
func weighted(random *rand.Rand, n int, weight func(int) int) int {
	total := 0
	for i := range n {
		total += weight(i)
	}
	roll := random.IntN(total)
	for i := range n {
		if roll -= weight(i); roll < 0 {
			return i
		}
	}
	return n - 1
}

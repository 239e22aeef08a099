package bench

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
)

// GangResult is what a contender did with gangs.
type GangResult struct {
	// NodesPerGang is the mean over gangs that are bound whole, MostNodes the
	// largest. What is best depends on the sizes: 1 where a gang fits on a node.
	NodesPerGang float64 `json:"nodesPerGang"`
	MostNodes    int     `json:"mostNodes"`
	// Partial is the number of gangs with some members bound at the end and some
	// not. Any makes the result invalid.
	Partial int `json:"partialGangs"`
	// LastCreateToBound is from the start of the last create call of a gang to the watch
	// event that shows the last of its pods bound: the scheduler's own time, once all
	// members exist.
	LastCreateToBound Latency `json:"lastCreateToBoundMs"`
}

// inGangsOf makes gangs of so many pods each, in the order of their numbers, of a
// cohort that is not created yet. The size must divide the number of pods.
func (c *cohort) inGangsOf(size int) { c.burst, c.ganged = size, true }

func (c *cohort) gangName(g int) string { return fmt.Sprintf("%s-gang-%06d", c.name, g) }

// gangLabels are the labels by which Tangram knows the gang of pod i; nil where
// pods come alone.
func (c *cohort) gangLabels(i int) map[string]string {
	if !c.ganged {
		return nil
	}
	return map[string]string{
		names.LabelGang:     c.gangName(i / c.burst),
		names.LabelGangSize: strconv.Itoa(c.burst),
	}
}

// gangWaits are the times that whole gangs took, from the creation of the last
// member to the last binding.
func (c *cohort) gangWaits() []time.Duration {
	if !c.ganged {
		return nil
	}
	waits := make([]time.Duration, 0, c.size()/c.burst)
	for first := 0; first < c.size(); first += c.burst {
		var created, bound time.Duration
		whole := true
		for i := first; i < first+c.burst; i++ {
			created, bound = max(created, c.created[i]), max(bound, c.bound[i])
			whole = whole && c.bound[i] != 0
		}
		if whole {
			waits = append(waits, bound-created)
		}
	}
	return waits
}

// gang is the names of pods that start together.
type gang struct {
	name string
	pods []string
}

func (c *cohort) gangs() []gang {
	var all []gang
	for i := range c.size() {
		if i%c.burst == 0 {
			all = append(all, gang{name: c.gangName(i / c.burst)})
		}
		g := &all[len(all)-1]
		g.pods = append(g.pods, c.podName(i))
	}
	return all
}

// gangPlaces is where gangs ended.
type gangPlaces struct {
	// mean and most are nodes per gang, of gangs that are bound whole.
	mean    float64
	most    int
	partial int
}

// checkGangs compares the pods that the API holds at the end with the requested gangs:
// each whole, its pods labelled as its members. A gang with no bound member is not
// partial; checkResult names its pods.
func checkGangs(gangs []gang, pods []corev1.Pod) (places gangPlaces, problems []string) {
	byName := make(map[string]*corev1.Pod, len(pods))
	for i := range pods {
		byName[pods[i].Name] = &pods[i]
	}
	var partial, strangers problemList
	whole, sum := 0, 0
	for _, g := range gangs {
		bound := 0
		nodes := map[string]bool{}
		for _, name := range g.pods {
			pod := byName[name]
			if pod == nil {
				continue
			}
			if got := pod.Labels[names.LabelGang]; got != g.name {
				strangers.addf("pod %s is of gang %q and should be of %q", name, got, g.name)
			}
			if pod.Spec.NodeName != "" {
				bound++
				nodes[pod.Spec.NodeName] = true
			}
		}
		switch bound {
		case 0:
		case len(g.pods):
			whole++
			sum += len(nodes)
			places.most = max(places.most, len(nodes))
		default:
			places.partial++
			partial.addf("gang %s has %d of %d pods bound", g.name, bound, len(g.pods))
		}
	}
	if whole > 0 {
		places.mean = float64(sum) / float64(whole)
	}
	return places, append(partial.texts(), strangers.texts()...)
}

// medianGangs takes medians over the rounds, but keeps the worst of what must not
// happen in any. Rounds that failed before there was anything to count have none.
func medianGangs(trials []Result) *GangResult {
	var mine []GangResult
	for i := range trials {
		if g := trials[i].Gangs; g != nil {
			mine = append(mine, *g)
		}
	}
	if len(mine) == 0 {
		return nil
	}
	s := &GangResult{
		NodesPerGang:      medianOf(mine, func(g *GangResult) float64 { return g.NodesPerGang }),
		LastCreateToBound: medianLatency(mine, func(g *GangResult) Latency { return g.LastCreateToBound }),
	}
	for i := range mine {
		s.MostNodes = max(s.MostNodes, mine[i].MostNodes)
		s.Partial = max(s.Partial, mine[i].Partial)
	}
	return s
}

// gangRows is the table of the numbers that only gangs have.
func gangRows(summary []Result) [][]string {
	rows := [][]string{
		{"", "last created to bound ms", "", "", "nodes per gang", "", "partial"},
		{"contender", "p50", "p95", "p99", "mean", "most", "gangs"},
	}
	for i := range summary {
		row := []string{rowName(&summary[i]), "-", "-", "-", "-", "-", "-"}
		if g := summary[i].Gangs; g != nil {
			row = append(row[:1],
				fmt.Sprintf("%.1f", g.LastCreateToBound.P50),
				fmt.Sprintf("%.1f", g.LastCreateToBound.P95),
				fmt.Sprintf("%.1f", g.LastCreateToBound.P99),
				fmt.Sprintf("%.2f", g.NodesPerGang),
				fmt.Sprint(g.MostNodes),
				fmt.Sprint(g.Partial))
		}
		rows = append(rows, row)
	}
	return rows
}

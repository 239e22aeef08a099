package checker

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// judgeLimits reports a binding that takes a queue above its capability, or one above
// it. Nothing lowers a capability during a run, so every excess is a binding's.
func (c *Checker) judgeLimits(now time.Time, p Pod) {
	for _, queue := range c.facts.above(p.Queue) {
		limit := c.facts.Queues[queue].Capability
		if limit == 0 {
			continue
		}
		used, pods := c.usedBy(queue)
		if used > limit {
			c.breach(now, Breach{
				Kind: LimitExceeded, Queue: queue, Pods: pods,
				Text: fmt.Sprintf("queue %s may use %d thousandths of a GPU and uses %d; the last was %s (%d)", queue, limit, used, p.Name, c.facts.charge(p.Ask)),
			})
		}
	}
}

// usedBy is what the bound pods of a queue and of those below it hold at least.
func (c *Checker) usedBy(queue string) (used int64, pods []string) {
	for _, h := range c.holdings {
		if h.pod.Queue != "" && !h.pod.Hand && slices.Contains(c.facts.above(h.pod.Queue), queue) {
			used += c.facts.charge(h.pod.Ask)
			pods = append(pods, h.pod.Name)
		}
	}
	slices.SortFunc(pods, strings.Compare)
	return used, pods
}

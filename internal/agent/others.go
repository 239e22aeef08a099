package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

// How another device plugin is looked for: one that is listed for as long as othersFor
// is there. Kubelet drops the devices of a plugin as soon as it ends, so that what an
// agent left that was just killed does not count.
const (
	othersFor   = 3 * time.Second
	othersEvery = 250 * time.Millisecond
	// othersWithin is how long nothing is published because kubelet does not say.
	othersWithin = 10 * time.Second
)

// awaitTurn waits until kubelet says what is offered to it, and returns why the agent
// must not serve: another device plugin sells the node's GPUs. Kubelet would let the
// newcomer take its place without a word, and the GPUs that its pods hold would be given
// again. "" means that the agent may.
func (a *Agent) awaitTurn(ctx context.Context) string {
	var since time.Time
	said := false
	for ctx.Err() == nil {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		offered, err := a.kubelet.Allocatable(call)
		cancel()
		switch other := a.otherOffer(offered); {
		case status.Code(err) == codes.Unimplemented:
			a.log.Info("Kubelet cannot list the devices of other plugins (GetAllocatableResources); serving without that check", "err", err)
			return ""
		case err != nil:
			if !said {
				a.log.Error(err, "Could not ask kubelet whether another device plugin serves; waiting before the agent does")
				said = true
			}
			a.o.Metrics.Kubelet(false)
			since = time.Time{}
		case other == "":
			a.o.Metrics.Kubelet(true)
			return ""
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= othersFor:
			return other
		}
		paused(ctx, othersEvery)
	}
	return ""
}

// otherOffer says what another device plugin offers of the node's GPUs; "" for nothing. Another
// agent of ours, which this one replaces during an upgrade, does not count.
func (a *Agent) otherOffer(offered map[string][]string) string {
	for _, resource := range slices.Sorted(maps.Keys(offered)) {
		if a.ourHardware(resource, offered[resource]) && !a.plugin.Served(resource) {
			return fmt.Sprintf("another device plugin offers %d healthy devices of %s, such as %.80q", len(offered[resource]), resource, offered[resource][0])
		}
	}
	return ""
}

// ourHardware says whether a resource is the node's GPUs: by its name, or by its IDs.
func (a *Agent) ourHardware(resource string, ids []string) bool {
	return strings.HasPrefix(resource, names.ResourceNVIDIA) || strings.HasPrefix(resource, slicePrefix) ||
		slices.ContainsFunc(a.Inventory().Devices, func(d device.Device) bool {
			return slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(id, d.UUID) })
		})
}

// yield makes an agent that was to serve an observer, for as long as it runs: when the
// other plugin goes it may be restarting, and its pods still hold devices.
func (a *Agent) yield(why string) {
	a.yielded.Store(true)
	a.log.Error(nil, "The agent does not serve, it only observes: "+why+"; remove that plugin and start the agent again")
	a.publisher.Observe("gpu-agent was told to serve and only observes: " + why)
	a.lookSoon()
}

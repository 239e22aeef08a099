package agent

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/internal/agent/health"
	"github.com/tangram-dev/tangram/internal/agent/publish"
)

// How often the inventory is read: it changes when a card is replaced, a driver comes or
// goes, or another program cuts a device. What the agent itself cuts is read at once.
const (
	inventoryEvery = time.Minute
	inventoryRetry = 5 * time.Second
	callTimeout    = 30 * time.Second
	// sampleTimeout is how long one sample of all devices may take: a device that hangs
	// holds up the telemetry of the others for that long.
	sampleTimeout = 5 * time.Second
)

// Inventory is what the node had when it was read last; empty before that.
func (a *Agent) Inventory() *device.Inventory {
	if inv := a.inventory.Load(); inv != nil {
		return inv
	}
	return &device.Inventory{}
}

// followInventory reads the inventory until the context ends.
func (a *Agent) followInventory(ctx context.Context) {
	for {
		next := inventoryEvery
		if err := a.readInventory(ctx); err != nil && ctx.Err() == nil {
			next = inventoryRetry
		}
		select {
		case <-ctx.Done():
			return
		case <-a.look:
		case <-time.After(next):
		}
	}
}

// lookSoon asks for the inventory to be read again.
func (a *Agent) lookSoon() { nudge(a.look) }

// nudge wakes the loop that waits for a channel of one place; it does not wait.
func nudge(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// readInventory reads it and passes it on.
func (a *Agent) readInventory(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	begin := time.Now()
	inv, err := a.o.Backend.Inventory(ctx)
	a.o.Metrics.Call("inventory", err, time.Since(begin))
	if err != nil {
		reason := "DriverError"
		switch {
		case errors.Is(err, device.ErrNoDriver):
			reason = "NoDriver"
		case errors.Is(err, device.ErrTimeout):
			reason = "DriverDoesNotAnswer"
		}
		if was := a.problem.Swap(&reason); was == nil || *was != reason {
			a.log.Error(err, "GPU driver cannot be used; will retry", "reason", reason)
		}
		if reason == "DriverDoesNotAnswer" && a.someAnswer() {
			return err // a device that hangs is sick by itself; the others are not
		}
		a.o.Metrics.Driver(false, false)
		a.publisher.SetProblem(publish.Problem{Reason: reason, Message: err.Error()})
		a.publishPool()
		return err
	}
	if a.problem.Swap(nil) != nil {
		a.log.Info("GPU driver can be used again", "devices", len(inv.Devices))
	}
	a.inventory.Store(inv)
	owned := a.ownedInstances(ctx)
	a.monitor.SetInventory(inv)
	a.publisher.SetInventory(a.shown(inv), owned)
	a.offer()
	a.setGiven(ctx, inv, owned)
	return nil
}

// driverAnswers says whether the driver answered the last question for samples, for one
// device at least.
func (a *Agent) driverAnswers() bool {
	return a.monitor.DriverAnswers() && (len(a.Inventory().Devices) == 0 || a.someAnswer())
}

// someAnswer says whether a device answered the last question for samples.
func (a *Agent) someAnswer() bool {
	return slices.ContainsFunc(a.monitor.Readings(), func(r health.Reading) bool { return r.Err == nil && !r.Sample.At.IsZero() })
}

// shown is the inventory as the scheduler is to see it: a device that the agent does not
// cut on demand has the cuts that exist and no others.
func (a *Agent) shown(inv *device.Inventory) *device.Inventory {
	if onDemand(a) {
		return inv
	}
	out := *inv
	out.Devices = slices.Clone(inv.Devices)
	for i := range out.Devices {
		if d := &out.Devices[i]; d.MIG != nil && !d.MIG.Enabled && len(d.MIG.Instances) == 0 {
			d.MIG = nil
		}
	}
	return &out
}

package scenario

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/score"
)

// measure sets readings in a GPUNode's status, of all devices or of one:
//
//	measure a100-0 temperature=80 power=350 3/utilization=90 3/memory=40000
//	----
//	ok
func (s *story) measure(ctx context.Context, d *datadriven.TestData) (view, error) {
	node, err := s.changeNode(d, func(node *v1.Node, key, value string) error {
		gn := s.gpuNodes[node.Name]
		number, err := strconv.ParseInt(value, 10, 32)
		if err != nil || gn == nil {
			return errors.New("needs a number, and a node with an agent")
		}
		one, what, isOne := strings.Cut(key, "/")
		if !isOne {
			what = key
		}
		for _, device := range gn.Spec.Devices {
			if isOne && one != strconv.Itoa(int(device.Index)) {
				continue
			}
			status := statusOf(gn, device.Index)
			small := int32(number)
			switch what {
			case "utilization":
				status.UtilizationPercent = &small
			case "memory":
				status.MemoryUsedMiB = &number
			case "temperature":
				status.TemperatureCelsius = &small
			case "power":
				status.PowerWatts = &small
			default:
				return errors.New("is not utilization, memory, temperature or power")
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.changes(), s.engine.Apply(ctx, s.gpuNodes[node.Name])
}

// statusOf is a device's entry in a GPUNode's status, made if needed.
func statusOf(gn *v1alpha1.GPUNode, index int32) *v1alpha1.DeviceStatus {
	for i := range gn.Status.Devices {
		if gn.Status.Devices[i].Index == index {
			return &gn.Status.Devices[i]
		}
	}
	gn.Status.Devices = append(gn.Status.Devices, v1alpha1.DeviceStatus{Index: index, Health: v1alpha1.Healthy})
	return &gn.Status.Devices[len(gn.Status.Devices)-1]
}

// rate compares how good the scheduler thinks a node is with what the API says of it:
// readings show nowhere else.
func (p *pluginEngine) rate(n *model.Node, rebuilt *ledger.Ledger) error {
	fresh := planner.New(rebuilt)
	p.shared.Engine().Drain() // scores are as of the last events that were applied
	for _, vendor := range model.Vendors {
		r := &model.Request{Vendor: vendor, Containers: []model.Container{{Name: "main", Count: 1}}}
		want, _ := fresh.Rate(r, score.DefaultWeights(), n.ID)
		got := p.shared.Engine().Rate(r, score.DefaultWeights(), n.ID, "")
		if err := difference(fmt.Sprintf("the scheduler's score of %s", n.ID), fmt.Sprint(got.Card), fmt.Sprint(want.Card)); err != nil {
			return err
		}
	}
	return nil
}

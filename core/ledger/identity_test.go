package ledger_test

import (
	"slices"
	"testing"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/mig"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/test/coretest"
)

// TestSetNodeSeesEveryField: an inventory that differs in any field is a change, also
// in a field that does not make nodes different kinds.
func TestSetNodeSeesEveryField(t *testing.T) {
	sample := func() *model.Node {
		n := coretest.Node("n").GPUs(2, "A100").Cuttable().Link(model.NVLink, 4, 0, 1).Attribute("a", "b").Domains("z").Extra("pods", 110).Build()
		n.Host = model.Host{CPU: 1000, Memory: 1 << 30}
		for i := range n.Devices { // the catalog's profiles are not ours to change
			d := &n.Devices[i]
			d.MIG = slices.Clone(d.MIG)
			for j := range d.MIG {
				d.MIG[j].Starts = slices.Clone(d.MIG[j].Starts)
			}
		}
		return n
	}
	seen := 0
	coretest.EachChange(t, sample, func(path string, changed *model.Node) {
		l := ledger.New()
		if err := l.SetNode(sample()); err != nil {
			t.Fatal(err)
		}
		before := l.FleetVersion()
		if err := l.SetNode(changed); err != nil {
			return // no valid inventory
		}
		if l.FleetVersion() == before {
			t.Errorf("%s changed, and the ledger took it for the same inventory", path)
		}
		seen++
	})
	if seen < 15 {
		t.Errorf("only %d changes were valid inventories", seen)
	}
	l := ledger.New()
	_ = l.SetNode(sample())
	if before := l.FleetVersion(); l.SetNode(sample()) != nil || l.FleetVersion() != before {
		t.Error("the same inventory again is a change")
	}
}

// TestUsageKeySeesEveryField: devices that are used differently are never taken for
// alike.
func TestUsageKeySeesEveryField(t *testing.T) {
	type devices struct{ Usage []ledger.Usage }
	sample := func() *devices {
		return &devices{[]ledger.Usage{{Memory: 1, Milli: 2, Tenants: 3, Cut: mig.State{Used: 5, Media: true}}}}
	}
	base := ledger.UsageKey(sample().Usage)
	coretest.EachChange(t, sample, func(path string, changed *devices) {
		if ledger.UsageKey(changed.Usage) == base {
			t.Errorf("%s is no part of the key", path)
		}
	})
}

// TestBucketKeySeesOccupancy: what claims amount to on a node is part of the key of its
// bucket, or no request's answer depends on it.
func TestBucketKeySeesOccupancy(t *testing.T) {
	noAnswerDependsOn := map[string]string{
		"byClaim":   "which claim holds which device; affinity rules ask node by node",
		"debt":      "what could not be assigned to a device; it is in no free device",
		"contested": "claims with an overruled record; the devices are counted in held",
	}
	key := ledger.BucketKeyFields()
	for _, field := range ledger.OccupancyFields() {
		if _, left := noAnswerDependsOn[field]; left == slices.Contains(key, field) {
			t.Errorf("%s: in the key %v, left out on purpose %v", field, slices.Contains(key, field), left)
		}
	}
}

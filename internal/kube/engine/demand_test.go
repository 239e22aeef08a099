package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/demand"
	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/internal/kube/report"
)

// racks puts the nodes of a setup into racks of one zone, two in each.
func (s *setup) racks(nodes int) {
	for i := range nodes {
		s.rack(i, fmt.Sprint("r", i/2))
	}
}

// rack puts a node into a rack.
func (s *setup) rack(i int, rack string) {
	n := testNode(fmt.Sprintf("n%d", i), 8)
	n.Labels = map[string]string{"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/rack": rack}
	s.addNode(n)
}

// inRack makes a member insist on one rack.
func inRack(p *v1.Pod) *v1.Pod {
	p.Annotations = map[string]string{names.AnnotationTopology: "required=rack"}
	return p
}

// last is the last document that was handed out in a while, and what pods were told.
func (s *setup) last(turns int) (doc *demand.Document, told map[string]string) {
	told = map[string]string{}
	for range turns {
		turn := s.after(report.Every)
		if turn.Demand != nil {
			doc = turn.Demand
		}
		for _, n := range turn.Notices {
			told[n.Pod.Name] = n.Reason
		}
	}
	return doc, told
}

// TestDemand: a gang that needs one rack asks for nodes of the rack with most room, its
// pods are not shown to autoscalers themselves, and nothing is asked for when it is gone.
func TestDemand(t *testing.T) {
	s := newSetup(t, 4)
	s.racks(4)
	s.Autoscale(time.Hour)
	for i := range 3 {
		s.add(inRack(s.member(fmt.Sprint("m", i), "g", 3, 8)))
	}
	s.add(s.member("free", "", 1, 8))
	doc, told := s.last(3)
	if doc == nil || len(doc.Gangs) != 1 || len(doc.Gangs[0].Members) != 3 {
		t.Fatalf("asked for %+v", doc)
	}
	if got := fmt.Sprint(doc.Gangs[0].Within); got != "map[topology.kubernetes.io/rack:r1 topology.kubernetes.io/zone:z]" && got != "map[topology.kubernetes.io/rack:r0 topology.kubernetes.io/zone:z]" {
		t.Errorf("within %s", got)
	}
	if told["m0"] != names.ReasonWaitingForNodes {
		t.Errorf("told %v", told)
	}
	for i := range 3 {
		s.deletePod(fmt.Sprint("m", i))
	}
	s.Sync()
	if doc, _ = s.last(2); doc == nil || len(doc.Gangs) > 0 {
		t.Errorf("asked for %+v for a gang that is gone", doc)
	}
}

// TestDemandWithoutTiers: tiers of HyperNodes are no labels, so no node is asked for by them.
func TestDemandWithoutTiers(t *testing.T) {
	s := newSetup(t, 4)
	s.racks(4)
	s.Autoscale(time.Hour)
	s.setLevels(topology.Levels{{Name: "zone", Label: "topology.kubernetes.io/zone"}, {Name: "rack", Label: "topology.volcano.sh/tier-1"}})
	for i := range 3 {
		s.add(inRack(s.member(fmt.Sprint("m", i), "g", 3, 8)))
	}
	doc, told := s.last(3)
	if doc != nil && len(doc.Gangs) > 0 || told["m0"] != v1.PodReasonUnschedulable {
		t.Errorf("asked for %+v, told %v", doc, told)
	}
}

// TestDemandStarts: what was asked for is taken back in the step in which the gang starts.
func TestDemandStarts(t *testing.T) {
	s := newSetup(t, 5)
	s.racks(4) // n4 is in no rack
	s.Autoscale(time.Hour)
	for i := range 3 {
		s.add(inRack(s.member(fmt.Sprint("m", i), "g", 3, 8)))
	}
	if doc, _ := s.last(2); doc == nil || len(doc.Gangs) != 1 {
		t.Fatalf("asked for %+v", doc)
	}
	s.rack(4, "r0")
	turn := s.Step()
	if len(turn.Activate) != 3 || turn.Demand == nil || len(turn.Demand.Gangs) > 0 {
		t.Errorf("%d start, asked for %+v", len(turn.Activate), turn.Demand)
	}
}

// TestDemandNothing: without autoscaling, and for who waits for something else than nodes
// of one domain, nothing is asked for.
func TestDemandNothing(t *testing.T) {
	s := newSetup(t, 2)
	s.racks(2)
	for i := range 3 {
		s.add(inRack(s.member(fmt.Sprint("m", i), "g", 3, 8)))
	}
	if doc, told := s.last(2); doc != nil || told["m0"] != v1.PodReasonUnschedulable {
		t.Errorf("asked for %+v, told %v", doc, told)
	}
	s.Autoscale(time.Hour)
	s.add(inRack(s.member("few0", "few", 2, 8)))
	for i := range 3 {
		s.add(s.member(fmt.Sprint("wide", i), "wide", 3, 8))
	}
	claims := inRack(s.member("c0", "claims", 2, 8))
	claims.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "x"}}
	s.add(claims, inRack(s.member("c1", "claims", 2, 8)))
	doc, _ := s.last(6)
	if doc == nil || len(doc.Gangs) != 1 || doc.Gangs[0].Members[0].Name[0] != 'm' {
		t.Errorf("asked for %+v", doc)
	}
}

// TestDemandKept: nodes that are kept for a gang are named, and no longer when it is gone.
func TestDemandKept(t *testing.T) {
	s := newSetup(t, 3)
	s.Autoscale(time.Hour)
	s.runs("short", 1, 8, func(p *v1.Pod) { p.Annotations = map[string]string{names.AnnotationRuntime: "1h"} })
	for i := range 3 {
		s.add(s.member(fmt.Sprint("w", i), "wide", 3, 8))
	}
	if doc, _ := s.last(2); doc == nil || !slices.Equal(doc.Kept, []string{"n0", "n1", "n2"}) {
		t.Errorf("kept %+v", doc)
	}
	for i := range 3 {
		s.deletePod(fmt.Sprint("w", i))
	}
	s.Sync()
	if doc, _ := s.last(2); doc == nil || len(doc.Kept) > 0 {
		t.Errorf("kept %+v for no gang", doc)
	}
}

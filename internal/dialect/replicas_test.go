package dialect

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
)

// timeSliced is a node as requirement document 001 configures it: 8 cards, replicas: 4,
// renameByDefault: false. Words like "key=value" change its labels.
func timeSliced(change ...string) *v1.Node {
	labels := map[string]string{
		names.LabelNVIDIACount: "8", replicasLabel: "4", names.LabelNVIDIAProduct: "NVIDIA-A100-SXM4-80GB-SHARED",
		names.LabelNVIDIAMemory: "81920", sharingLabel: "time-slicing", mpsLabel: "false",
	}
	for _, word := range change {
		key, value, _ := strings.Cut(word, "=")
		if labels[key] = value; value == "" {
			delete(labels, key)
		}
	}
	return nodeOf(labels, "nvidia.com/gpu=32")
}

// TestTimeSlicingWithoutRenaming: 8 cards of 4 turns, from the labels alone.
func TestTimeSlicingWithoutRenaming(t *testing.T) {
	agent := &v1alpha1.GPUNode{}
	agent.Name = "n"
	for i := range 8 {
		agent.Spec.Devices = append(agent.Spec.Devices, v1alpha1.Device{Index: int32(i), UUID: fmt.Sprintf("GPU-%d", i), Vendor: "nvidia", Model: "A100", MemoryMiB: 81920})
	}
	tests := []struct {
		name         string
		node         *v1.Node
		agent        *v1alpha1.GPUNode
		cards, turns int
		replicated   bool
		mps          bool
	}{
		{"labels", timeSliced(), nil, 8, 4, true, false},
		{"a GPUNode beside them", timeSliced(), agent, 8, 4, true, false},
		{"no count", timeSliced(names.LabelNVIDIACount + "="), nil, 8, 4, true, false},
		{"older GPU Feature Discovery: no strategy", timeSliced(sharingLabel + "="), nil, 8, 4, true, false},
		{"no replicas, only -SHARED", timeSliced(replicasLabel+"=", sharingLabel+"="), nil, 8, 4, true, false},
		{"MPS", timeSliced(sharingLabel+"=mps", mpsLabel+"=true"), nil, 8, 4, true, true},
		{"MPS, no strategy", timeSliced(sharingLabel+"=", mpsLabel+"=true"), nil, 8, 4, true, true},
		{"not shared", nodeOf(map[string]string{names.LabelNVIDIACount: "8", replicasLabel: "1"}, "nvidia.com/gpu=8"), nil, 8, 0, false, false},
		{"renamed", nodeOf(map[string]string{names.LabelNVIDIACount: "8", replicasLabel: "4"}, "nvidia.com/gpu.shared=32"), nil, 8, 4, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inv, err := Inventory(tt.node, tt.agent)
			if err != nil {
				t.Fatal(err)
			}
			if len(inv.Devices) != tt.cards {
				t.Fatalf("got %d devices, want %d", len(inv.Devices), tt.cards)
			}
			for _, d := range inv.Devices {
				if d.Tenants != tt.turns || d.Replicated != tt.replicated || d.OnePerContainer != tt.mps {
					t.Errorf("got %+v", d)
				}
			}
			if tt.replicated && inv.Sellable[model.NVIDIA] != 32 {
				t.Errorf("sellable: got %d, want all 32 turns", inv.Sellable[model.NVIDIA])
			}
		})
	}
	if inv, _ := Inventory(nodeOf(map[string]string{names.LabelNVIDIACount: "8", replicasLabel: "16"}, "nvidia.com/gpu=128"), nil); inv.Sellable[model.NVIDIA] != 128 {
		t.Errorf("16 replicas of 8 cards: %d turns, want 128", inv.Sellable[model.NVIDIA])
	}
}

// onTurns is a ledger with a time-sliced node.
type onTurns struct {
	*testing.T
	ledger *ledger.Ledger
	inv    *model.Node
	pods   int
}

func newOnTurns(t *testing.T, node *v1.Node) *onTurns {
	inv, err := Inventory(node, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &onTurns{T: t, ledger: ledger.New(), inv: inv}
	if err := s.ledger.SetNode(inv); err != nil {
		t.Fatal(err)
	}
	return s
}

// bind places a pod and reads it back from the API's words; the cards it got.
func (s *onTurns) bind(requests ...string) ([]int, error) {
	s.Helper()
	p := podOf()
	for i, r := range requests {
		p.Spec.Containers = append(p.Spec.Containers, container(fmt.Sprintf("c%d", i), r))
	}
	s.pods++
	p.UID = types.UID(fmt.Sprint("pod-", s.pods))
	r, err := Request(p)
	if err != nil {
		s.Fatal(err)
	}
	v, _ := s.ledger.View(s.inv.ID)
	grant, refusal := place.Fit(r, v)
	if refusal != nil {
		return nil, fmt.Errorf("%s", refusal)
	}
	rec := Record(r, s.inv, grant)
	text, err := record.Encode(rec)
	if err != nil {
		s.Fatal(err)
	}
	p.Annotations[names.AnnotationDevices], p.Spec.NodeName = text, string(s.inv.ID)
	claims, err := Claims(p)
	if err != nil || len(claims) != 1 {
		s.Fatal(claims, err)
	}
	s.ledger.Put(s.inv.ID, claims[0])
	if err := s.ledger.Audit(); err != nil {
		s.Fatal(err)
	}
	var cards []int
	for _, c := range rec.Containers {
		for _, d := range c.Devices {
			if !d.Turn {
				s.Errorf("the record says that card %d is given whole", d.Index)
			}
			cards = append(cards, d.Index)
		}
	}
	return cards, nil
}

// TestTurnsUnderTheNameOfWholeGPUs: nvidia.com/gpu: 1 is one turn of one card, beside
// others; n are n turns on n different cards.
func TestTurnsUnderTheNameOfWholeGPUs(t *testing.T) {
	s := newOnTurns(t, timeSliced())
	if _, err := s.bind("nvidia.com/gpu=16"); err == nil || !strings.Contains(err.Error(), "8 of 16") {
		t.Errorf("16 turns on 8 cards: got %v", err)
	}
	tenants := map[int]int{}
	for range 24 { // three on each card: turns are spread
		cards, err := s.bind("nvidia.com/gpu=1")
		if err != nil {
			t.Fatal(err)
		}
		tenants[cards[0]]++
	}
	for card := range 8 {
		if tenants[card] != 3 {
			t.Errorf("card %d has %d tenants, want 3: %v", card, tenants[card], tenants)
		}
	}
	v, _ := s.ledger.View(s.inv.ID)
	if room := v.Room(model.NVIDIA); room != 8 {
		t.Errorf("%d turns left, want 8", room)
	}
	cards, err := s.bind("nvidia.com/gpu=6", "nvidia.com/gpu=2")
	if err != nil || len(cards) != 8 {
		t.Fatalf("eight turns: got %v, %v", cards, err)
	}
	seen := map[int]bool{}
	for _, card := range cards {
		if seen[card] {
			t.Errorf("two turns on one card: %v", cards)
		}
		seen[card] = true
	}
	if _, err := s.bind("nvidia.com/gpu=1"); err == nil {
		t.Error("33 turns on 8 cards of 4")
	}
}

// TestUnrecordedTurns: pods that another scheduler bound are counted in turns, also
// more than one on a card; nothing is lost.
func TestUnrecordedTurns(t *testing.T) {
	s := newOnTurns(t, timeSliced())
	p := bound("", container("a", "nvidia.com/gpu=16"))
	claims, err := Claims(p)
	if err != nil {
		t.Fatal(err)
	}
	s.ledger.Put(s.inv.ID, claims[0])
	if err := s.ledger.Audit(); err != nil {
		t.Fatal(err)
	}
	v, _ := s.ledger.View(s.inv.ID)
	for slot := range 8 {
		if u := v.Usage(slot); u.Tenants != 2 {
			t.Errorf("card %d: %d tenants, want 2", slot, u.Tenants)
		}
	}
	if room := v.Room(model.NVIDIA); room != 16 {
		t.Errorf("%d turns left, want 16", room)
	}
}

// TestForgedTurn: on a card that is not shared, a record that says "turn" frees nothing.
func TestForgedTurn(t *testing.T) {
	inv, _ := Inventory(nodeOf(nil, "nvidia.com/gpu=1"), nil)
	l := ledger.New()
	if err := l.SetNode(inv); err != nil {
		t.Fatal(err)
	}
	p := bound(`{"version":1,"node":"n","containers":[{"name":"a","resource":"nvidia.com/gpu","devices":[{"index":0,"turn":1}]}]}`, container("a", "nvidia.com/gpu=1"))
	claims, err := Claims(p)
	if err != nil {
		t.Fatal(err)
	}
	l.Put(inv.ID, claims[0])
	if v, _ := l.View(inv.ID); v.Room(model.NVIDIA) != 0 {
		t.Error("the card is sold twice")
	}
}

// TestMPSReplicas: NVIDIA's plugin refuses more than one MPS replica in a container.
func TestMPSReplicas(t *testing.T) {
	s := newOnTurns(t, timeSliced(sharingLabel+"=mps", mpsLabel+"=true"))
	if _, err := s.bind("nvidia.com/gpu=2"); err == nil {
		t.Error("two MPS replicas in one container")
	}
	if cards, err := s.bind("nvidia.com/gpu=1", "nvidia.com/gpu=1"); err != nil || len(cards) != 2 {
		t.Errorf("one replica for each of two containers: got %v, %v", cards, err)
	}
}

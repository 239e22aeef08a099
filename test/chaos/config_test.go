package chaos

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestParseWeights(t *testing.T) {
	known := []string{"a", "b", "c"}
	tests := []struct {
		text, want, wantErr string
	}{
		{text: "all", want: "map[a:1 b:1 c:1]"},
		{text: "none", want: "map[]"},
		{text: "", want: "map[]"},
		{text: "a:3, c", want: "map[a:3 c:1]"},
		{text: "all:2,-b,c:5", want: "map[a:2 c:5]"},
		{text: "d", wantErr: `"d" is not one of a, b, c`},
		{text: "-d", wantErr: `"-d" is not one of a, b, c`},
		{text: "a:x", wantErr: "not a number"},
		{text: "a:-1", wantErr: "not a number"},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			w, err := ParseWeights(tt.text, known)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Errorf("error = %v, want %q", err, tt.wantErr)
				}
				return
			}
			if err != nil || fmt.Sprint(map[string]int(w)) != tt.want {
				t.Errorf("got %v, %v, want %s", w, err, tt.want)
			}
		})
	}
}

func TestPickFollowsWeights(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	seen := map[string]int{}
	for range 4000 {
		seen[Weights{"a": 1, "b": 3, "c": 0}.pick(random.IntN)]++
	}
	if seen["a"] < 800 || seen["a"] > 1200 || seen["a"]+seen["b"] != 4000 {
		t.Errorf("picked %v", seen)
	}
	if got := (Weights{}).pick(random.IntN); got != "" {
		t.Errorf("of none, %q was picked", got)
	}
}

// TestSeedFixesLoad: the same seed makes up the same units, each within what the
// fleet and its queues could ever give.
func TestSeedFixesLoad(t *testing.T) {
	units := func() (list []*unit) {
		random := rand.New(rand.NewPCG(7, 1))
		for i := range 300 {
			list = append(list, newUnit(random, i, LoadKinds()[i%len(LoadKinds())]))
		}
		return list
	}
	first, second := units(), units()
	for i, u := range first {
		if fmt.Sprintf("%+v", *u) != fmt.Sprintf("%+v", *second[i]) {
			t.Fatalf("unit %d differs: %+v and %+v", i, *u, *second[i])
		}
		if limit := map[string]int{"small": 2, "team-a": 8, "team-b": 12}[u.Queue]; limit > 0 && u.devices() > limit && u.Pods[0].Whole > 0 {
			t.Errorf("unit %s of %d GPUs can never start in queue %s", u.Name, u.devices(), u.Queue)
		}
	}
}

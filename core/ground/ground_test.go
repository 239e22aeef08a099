package ground_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/ground"
	"github.com/tangram-dev/tangram/core/model"
)

// TestGroundsCoverAll: one ground after the other comes to every site that could take the
// gang, each is of sites that fit, and the last one is all nodes or says that there is no more.
func TestGroundsCoverAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sites []ground.Site
		fits := map[model.NodeID]bool{}
		for i := range rapid.IntRange(0, 40).Draw(t, "sites") {
			s := ground.Site{
				ID: model.NodeID(fmt.Sprintf("n%02d", i)), Domain: rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "domain"),
				Order: int64(rapid.IntRange(0, 5).Draw(t, "order")), Then: int64(rapid.IntRange(0, 5).Draw(t, "then")),
				Hosts: rapid.IntRange(1, 4).Draw(t, "hosts"),
			}
			sites = append(sites, s)
			fits[s.ID] = rapid.Bool().Draw(t, "fits")
		}
		size, members := rapid.IntRange(1, 10).Draw(t, "size"), rapid.IntRange(1, 6).Draw(t, "members")
		seen := map[model.NodeID]bool{}
		for number := 0; ; number++ {
			if number > len(sites)+2 {
				t.Fatalf("%d grounds of %d sites", number, len(sites))
			}
			g := ground.At(slices.Clone(sites), func(id model.NodeID) bool { return fits[id] }, size, members, number)
			if g.Nodes == nil && len(sites) > 0 { // all nodes
				break
			}
			for _, id := range g.Nodes {
				if !fits[id] {
					t.Fatalf("%s cannot take the gang", id)
				}
				seen[id] = true
			}
			if !g.More {
				break
			}
		}
		// Sites of a domain that has too few hosts in reach are left out; every other one that
		// fits has been looked at.
		for _, s := range sites {
			if fits[s.ID] && s.Hosts >= members && !seen[s.ID] && len(seen) > 0 && size >= len(sites) {
				t.Fatalf("%s was never looked at", s.ID)
			}
		}
	})
}

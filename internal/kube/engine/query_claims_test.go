package engine

import (
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/tangram-dev/tangram/internal/kube/answer"
)

// only sees one namespace by name.
type only string

func (o only) MayListPods(namespace string) bool { return namespace == string(o) }
func (only) MayListNodes() bool                  { return false }
func (only) MayListQueues() bool                 { return false }

// TestWhyNamesIdleClaims: a claim that holds GPUs though no pod uses it is named to who may
// see its namespace, and only counted for others. One that is not in the way is not.
func TestWhyNamesIdleClaims(t *testing.T) {
	s := newClaimSetup(t)
	s.claim("kept", 6, func(c *resourceapi.ResourceClaim) {
		allocate(nil, 0b111111)(c)
		c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{APIGroup: "example.com", Resource: "sessions", Name: "s", UID: "s"}}
	})
	p := s.member("p", "", 0, 4)
	p.Namespace = "team"
	s.add(p)
	s.eventually("the claim stands", func() bool { s.Step(); return s.free() == 2 })
	helps := func(see answer.Sight) (out string) {
		for _, h := range s.Why(t.Context(), "", "team", "p", see, nil).Helps {
			if strings.Contains(h.Text, "ResourceClaim") {
				out += h.Who + ": " + h.Text + " " + h.Command
			}
		}
		return out
	}
	if got, want := helps(only("default")), "administrator: 6 GPUs are held by 1 ResourceClaim that no pod uses: default/kept. Delete what is not needed. kubectl -n default delete resourceclaim kept"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := helps(only("team")), "administrator: 6 GPUs are held by 1 ResourceClaim of other namespaces that no pod uses. "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	// Eight GPUs that others use do not come free with it.
	s.add(s.member("q", "", 0, 2))
	s.eventually("the rest is taken", func() bool { s.Step(); return s.free() == 0 })
	p = s.member("large", "", 0, 8)
	p.Namespace = "team"
	s.add(p)
	s.Step()
	for _, h := range s.Why(t.Context(), "", "team", "large", only("default"), nil).Helps {
		if strings.Contains(h.Text, "ResourceClaim") {
			t.Errorf("said of a gang that it would not help: %q", h.Text)
		}
	}
}

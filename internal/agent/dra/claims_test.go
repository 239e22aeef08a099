package dra

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// node is what claims are prepared on, as the test says.
type node struct {
	t       *testing.T
	options DriverOptions
	claims  *Claims
	objects map[string]*resourceapi.ResourceClaim
	parts   []Part
	made    map[string]device.Allocation
	fails   error // of Prepare, for the second device on
	closed  error // of the door
	away    error // of the API server
}

func newNode(t *testing.T) *node {
	n := &node{t: t, objects: map[string]*resourceapi.ResourceClaim{}, made: map[string]device.Allocation{}, parts: Parts(inventory(4, 2), Cuts{OnDemand: true})}
	n.options = DriverOptions{
		Node: "n", Journal: filepath.Join(t.TempDir(), "claims.json"),
		Get: func(_ context.Context, namespace, name string) (*resourceapi.ResourceClaim, error) {
			if n.away != nil {
				return nil, n.away
			}
			if c := n.objects[namespace+"/"+name]; c != nil {
				return c, nil
			}
			return nil, apierrors.NewNotFound(resourceapi.Resource("resourceclaims"), name)
		},
		Parts: func() ([]Part, error) { return n.parts, nil },
		Door: func(_ context.Context, c *Claim, note func() error) error {
			if n.closed != nil {
				return n.closed
			}
			return note()
		},
		Prepare: func(_ context.Context, a device.Allocation) error {
			if n.fails != nil && len(n.made) > 0 {
				return n.fails
			}
			n.made[a.ID] = a
			return nil
		},
		Release: func(_ context.Context, id string) error { delete(n.made, id); return nil },
		CDI:     func(id string) string { return "tangram.dev/allocation=" + id },
	}
	n.restart()
	return n
}

// restart begins with what the journal says.
func (n *node) restart() {
	n.t.Helper()
	c, err := NewClaims(n.options)
	if err != nil {
		n.t.Fatal(err)
	}
	n.claims = c
}

// claim allocates devices to a claim.
func (n *node) claim(name string, devices ...string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}}
	c.Status.Allocation = &resourceapi.AllocationResult{}
	for i, d := range devices {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
			resourceapi.DeviceRequestAllocationResult{Request: fmt.Sprintf("r%d/first", i), Driver: Driver, Pool: "n", Device: d})
	}
	n.objects["ns/"+name] = c
	return c
}

func (n *node) prepare(name string) ([]Prepared, error) {
	return n.claims.Prepare(n.t.Context(), "ns", name, "uid-"+name)
}

// holds are the devices that are made, as UUID and placement.
func (n *node) holds() string {
	var out []string
	for _, a := range n.made {
		g := a.Devices[0]
		s := g.UUID
		if g.Profile != "" {
			s += fmt.Sprintf("/%s@%d", g.Profile, g.Start)
		}
		if a.Admin {
			s += "!"
		}
		out = append(out, s)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (n *node) wants(holds string, claims int) {
	n.t.Helper()
	if got := n.holds(); got != holds || len(n.claims.List()) != claims || len(n.claims.Live()) < claims {
		n.t.Errorf("holds %q in %d claims, want %q in %d", got, len(n.claims.List()), holds, claims)
	}
}

func TestPrepare(t *testing.T) {
	n := newNode(t)
	n.claim("a", "gpu-3", "gpu-0-mig-1g18gb-19-4")
	first, err := n.prepare("a")
	if err != nil || len(first) != 2 || first[0].Request != "r0" || first[0].Device != "gpu-3" || first[0].Pool != "n" || first[0].CDI == first[1].CDI || !strings.HasPrefix(first[0].CDI, "tangram.dev/allocation=") {
		t.Fatalf("%+v, %v", first, err)
	}
	n.wants("GPU-0/1g.18gb@4 GPU-3", 1)
	// Again, and after a restart of the agent: the same.
	for range 2 {
		again, err := n.prepare("a")
		if err != nil || !slices.Equal(again, first) {
			t.Errorf("%+v, %v", again, err)
		}
		n.restart()
	}
	// The API server is away, or the device gone: what is prepared counts.
	n.away = errors.New("away")
	if again, err := n.prepare("a"); err != nil || !slices.Equal(again, first) {
		t.Errorf("%+v, %v", again, err)
	}
	n.away = nil
	// Another claim does not get the same card, or a part that overlaps.
	n.claim("b", "gpu-0")
	if _, err := n.prepare("b"); err == nil || !strings.Contains(err.Error(), "gpu-0 is prepared for ResourceClaim ns/a") {
		t.Errorf("%v", err)
	}
	n.claim("c", "gpu-0-mig-2g35gb-14-4")
	if _, err := n.prepare("c"); err == nil {
		t.Error("an instance that overlaps")
	}
	n.claim("d", "gpu-0-mig-2g35gb-14-2")
	if _, err := n.prepare("d"); err != nil {
		t.Error(err)
	}
	n.wants("GPU-0/1g.18gb@4 GPU-0/2g.35gb@2 GPU-3", 2)
	for range 2 {
		if err := n.claims.Unprepare(t.Context(), "uid-a"); err != nil {
			t.Error(err)
		}
	}
	n.wants("GPU-0/2g.35gb@2", 1)
	n.restart()
	n.wants("GPU-0/2g.35gb@2", 1)
}

// What fails half way is undone, and can be tried again.
func TestPrepareFails(t *testing.T) {
	n := newNode(t)
	n.claim("a", "gpu-2", "gpu-3")
	n.fails = errors.New("disk full")
	if _, err := n.prepare("a"); err == nil || !strings.Contains(err.Error(), "device gpu-3: disk full") {
		t.Errorf("%v", err)
	}
	n.wants("", 0)
	n.fails, n.closed = nil, errors.New("pod ns/p holds it")
	if _, err := n.prepare("a"); err == nil || !strings.Contains(err.Error(), "pod ns/p holds it") {
		t.Errorf("%v", err)
	}
	n.wants("", 0)
	n.closed = nil
	if _, err := n.prepare("a"); err != nil {
		t.Error(err)
	}
	n.wants("GPU-2 GPU-3", 1)
	// It is in use: a later failure takes nothing away.
	n.fails = errors.New("disk full")
	if _, err := n.prepare("a"); err == nil {
		t.Error("no error")
	}
	n.wants("GPU-2 GPU-3", 1)
}

func TestAdminAccess(t *testing.T) {
	n := newNode(t)
	n.claim("a", "gpu-3")
	if _, err := n.prepare("a"); err != nil {
		t.Fatal(err)
	}
	yes := true
	n.claim("monitor", "gpu-3", "gpu-0").Status.Allocation.Devices.Results[0].AdminAccess = &yes
	n.objects["ns/monitor"].Status.Allocation.Devices.Results[1].AdminAccess = &yes
	if _, err := n.prepare("monitor"); err != nil {
		t.Fatal(err)
	}
	n.wants("GPU-0! GPU-3 GPU-3!", 2)
	n.claim("b", "gpu-0")
	if _, err := n.prepare("b"); err != nil {
		t.Error(err)
	}
}

// Claims that cannot be prepared say what is wrong with them.
func TestWrongClaims(t *testing.T) {
	share := types.UID("s")
	for name, c := range map[string]struct {
		change func(*resourceapi.ResourceClaim)
		want   string
	}{
		"no such device": {func(c *resourceapi.ResourceClaim) { c.Status.Allocation.Devices.Results[0].Device = "gpu-9" },
			`results[0].device: "gpu-9" is not on this node any more: it has gpu-0, gpu-1, gpu-2, gpu-3`},
		"another pool":        {func(c *resourceapi.ResourceClaim) { c.Status.Allocation.Devices.Results[0].Pool = "m" }, `results[0].pool: "m"`},
		"not allocated":       {func(c *resourceapi.ResourceClaim) { c.Status.Allocation = nil }, "status.allocation: the claim is not allocated"},
		"nothing of ours":     {func(c *resourceapi.ResourceClaim) { c.Status.Allocation.Devices.Results[0].Driver = "nic" }, "none is of driver gpu.tangram.dev"},
		"a share":             {func(c *resourceapi.ResourceClaim) { c.Status.Allocation.Devices.Results[0].ShareID = &share }, "results[0].shareID"},
		"parameters":          {func(c *resourceapi.ResourceClaim) { c.Status.Allocation.Devices.Config = parameters(Driver) }, "config[0]: driver gpu.tangram.dev takes no parameters; remove them from the DeviceClass"},
		"parameters of other": {func(c *resourceapi.ResourceClaim) { c.Status.Allocation.Devices.Config = parameters("nic") }, ""},
		"another claim":       {func(c *resourceapi.ResourceClaim) { c.UID = "new" }, "has the UID new, kubelet means the one with uid-a, which is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			c.change(n.claim("a", "gpu-1"))
			_, err := n.prepare("a")
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v", err)
			}
		})
	}
}

func parameters(driver string) []resourceapi.DeviceAllocationConfiguration {
	return []resourceapi.DeviceAllocationConfiguration{{
		Source:              resourceapi.AllocationConfigSourceClass,
		DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: driver}},
	}}
}

// A claim that was allocated anew while neither kubelet nor the agent ran has what it was given last.
func TestAllocatedAnew(t *testing.T) {
	n := newNode(t)
	n.claim("a", "gpu-2")
	if _, err := n.prepare("a"); err != nil {
		t.Fatal(err)
	}
	n.claim("a", "gpu-3")
	if _, err := n.prepare("a"); err != nil {
		t.Fatal(err)
	}
	n.wants("GPU-3", 1)
}

// A claim that is gone, and that kubelet forgot, is given back when that was seen twice.
func TestReconcile(t *testing.T) {
	n := newNode(t)
	for _, name := range []string{"stays", "listed", "forgotten", "away"} {
		n.claim(name, map[string]string{"stays": "gpu-0", "listed": "gpu-1", "forgotten": "gpu-2", "away": "gpu-3"}[name])
		if _, err := n.prepare(name); err != nil {
			t.Fatal(err)
		}
	}
	listed := func(_, name string) bool { return name == "listed" }
	delete(n.objects, "ns/listed")
	delete(n.objects, "ns/forgotten")
	delete(n.objects, "ns/away")
	n.claims.Reconcile(t.Context(), listed)
	n.wants("GPU-0 GPU-1 GPU-2 GPU-3", 4)
	n.claim("away", "gpu-3") // it was a mistake
	n.claims.Reconcile(t.Context(), listed)
	n.wants("GPU-0 GPU-1 GPU-3", 3)
	n.away = errors.New("away")
	n.claims.Reconcile(t.Context(), listed)
	n.claims.Reconcile(t.Context(), listed)
	n.wants("GPU-0 GPU-1 GPU-3", 3)
}

// Two agents serve during an upgrade: what one has prepared the other knows.
func TestTwoAgents(t *testing.T) {
	n := newNode(t)
	old := n.claims
	n.restart()
	n.claim("a", "gpu-2")
	n.claim("b", "gpu-2")
	n.claim("c", "gpu-3")
	if _, err := old.Prepare(t.Context(), "ns", "a", "uid-a"); err != nil {
		t.Fatal(err)
	}
	if len(n.claims.Live()) != 1 {
		t.Error("the new agent does not know what the old one prepared")
	}
	if _, err := n.prepare("b"); err == nil || !strings.Contains(err.Error(), "ns/a") {
		t.Errorf("the same card: %v", err)
	}
	if _, err := n.prepare("c"); err != nil {
		t.Fatal(err)
	}
	if err := old.Unprepare(t.Context(), "uid-a"); err != nil {
		t.Fatal(err)
	}
	n.wants("GPU-3", 1)
	if len(old.List()) != 1 {
		t.Errorf("%+v", old.List())
	}
}

func TestJournalUnreadable(t *testing.T) {
	n := newNode(t)
	for _, text := range []string{"{", `{"version":9}`, `{"version":1,"claims":7}`} {
		if err := os.WriteFile(n.options.Journal, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := NewClaims(n.options); err == nil || !strings.Contains(err.Error(), "claims.json") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

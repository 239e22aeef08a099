package topology_test

import (
	"fmt"
	"testing"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
)

func TestBands(t *testing.T) {
	node := func(n int, links ...model.Link) *model.Node {
		out := &model.Node{Links: links}
		for i := range n {
			out.Devices = append(out.Devices, model.Device{Index: i})
		}
		return out
	}
	link := func(c model.LinkClass, between ...int) model.Link { return model.Link{Class: c, Between: between} }
	for _, c := range []struct {
		what string
		node *model.Node
		want string
	}{
		{"no device", node(0), "[]"},
		{"one device", node(1), "[]"},
		{"nothing known", node(4), "[]"},
		{"all alike", node(4, link(model.PIX, 0, 1, 2, 3)), "[]"},
		{"all on a switch", node(4, link(model.NVSwitch, 0, 1, 2, 3)), "[{NVSwitch [0 1 2 3]}]"},
		{"all joined, a pair better", node(3, link(model.NVLink, 0, 1, 2), link(model.NVSwitch, 1, 2)), "[{NVSwitch [1 2]} {NVLink [0 1 2]}]"},
		{"two pairs", node(4, link(model.NVLink, 0, 1), link(model.NVLink, 3, 2)), "[{NVLink [0 1]} {NVLink [2 3]}]"},
		{"a chain", node(4, link(model.NVLink, 0, 1), link(model.NVLink, 1, 2)), "[{NVLink [0 1 2]}]"},
		{"pairs within halves", node(4, link(model.NODE, 0, 1, 2, 3), link(model.PIX, 0, 1, 2), link(model.NVLink, 0, 1)), "[{NVLink [0 1]} {PIX [0 1 2]}]"},
		{"the same group by a worse class, too", node(3, link(model.PHB, 0, 1), link(model.NVLink, 0, 1)), "[{NVLink [0 1]}]"},
		{"a device that is not there", node(2, link(model.NVLink, 0, 7)), "[]"},
	} {
		if got := fmt.Sprint(topology.Bands(c.node)); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

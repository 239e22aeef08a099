package scenario

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestReason(t *testing.T) {
	tests := []struct{ name, message, want string }{
		{
			"refused by GPUs",
			"0/3 nodes are available: 3 nodes have too few free GPUs (1 of 2). preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
			"3 nodes have too few free GPUs (1 of 2)",
		},
		{
			"after dynamic resources",
			"0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
			"1 Insufficient cpu",
		},
		{
			"two kinds of reasons",
			"0/2 nodes are available: 1 node(s) had too few free GPUs (0 of 1), 1 node(s) had untolerated taint(s). preemption: not eligible due to preemptionPolicy=Never.",
			"1 node(s) had too few free GPUs (0 of 1), 1 node(s) had untolerated taint(s)",
		},
		{
			"a field",
			`0/1 nodes are available: metadata.annotations[volcano.sh/gpu-index]: "1. no" is not a device index (0 to 63). preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.`,
			`metadata.annotations[volcano.sh/gpu-index]: "1. no" is not a device index (0 to 63)`,
		},
		{"no preemption", "0/1 nodes are available: 1 node has no such GPU.", "1 node has no such GPU"},
		{"empty cluster", "no nodes available to schedule pods", "the cluster has no nodes"},
		{"core's own", "1 node has no such GPU", "1 node has no such GPU"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := reason(tt.message); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestHeader(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string
		wantErr    bool
	}{
		{"story only", "# A story.\n\nnodes\n", allEngines, false},
		{"engines", "# engines: plugin cluster\n#\n# A story.\n", []string{"plugin", "cluster"}, false},
		{"engines below the story", "# A story.\n# engines: core\n", []string{"core"}, false},
		{"no story", "nodes\n", nil, true},
		{"unknown engine", "# engines: simulator\n", nil, true},
		{"wrong order", "# engines: cluster plugin\n", nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := header(tt.text)
			if !slices.Equal(got, tt.want) || (err != nil) != tt.wantErr {
				t.Errorf("got %v, %v; want %v, error %v", got, err, tt.want, tt.wantErr)
			}
		})
	}
}

func TestLine(t *testing.T) {
	l, err := parseLine(`a-[8-10]b gpus=4 model="NVIDIA A10" label=x=1 label=y=2 record={"a": "b c"}`)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%v %d %s %v %s %v", l.names, l.number("gpus", 0), l.text("model", ""), l.pairs("label"), l.text("record", ""), l.done())
	if want := `[a-8b a-9b a-10b] 4 NVIDIA A10 map[x:1 y:2] {"a": "b c"} <nil>`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestMistakes: a word that is wrong is an error that names it, not a pod or node
// that is not what the story says.
func TestMistakes(t *testing.T) {
	node := func(l *line) error { _, _, err := l.node("n"); return err }
	pod := func(l *line) error { _, _, err := l.pod("p"); return err }
	tests := []struct {
		name, text string
		read       func(*line) error
		want       string
	}{
		{"unknown field of a node", "n gpu=8", node, "gpu:"},
		{"unknown field of a pod", "p gpus=1 memory=4", pod, "memory:"},
		{"not a number", "n gpus=many", node, "gpus:"},
		{"given twice", "n gpus=1 gpus=2", node, "gpus:"},
		{"unknown vendor", "n vendor=acme", node, "vendor:"},
		{"no such device", "n gpus=2 link=NVLink:0-2", node, "link:"},
		{"neither yes nor no", "n agent=maybe", node, "agent:"},
		{"taint without effect", "n taint=a=b", node, "taint:"},
		{"not an amount", "p gpus=lots", pod, "nvidia.com/gpu:"},
		{"label without value", "p label=x", pod, "label:"},
		{"priority", "p priority=high", pod, "priority:"},
		{"requirement", "p require=accelerator", pod, "require:"},
		{"not key=value", "n gpus", nil, "gpus"},
		{"open quote", `n model="A10`, nil, "quote"},
		{"backward range", "n-[3-1]", nil, "range"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, err := parseLine(tt.text)
			if err == nil && tt.read != nil {
				err = tt.read(l)
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error about %s", err, tt.want)
			}
		})
	}
}

package see

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/internal/ask"
	"github.com/tangram-dev/tangram/internal/terminal"
	"github.com/tangram-dev/tangram/test/asktest"
)

// A live view asks only for what changed, and shows all of it; an error is shown in place
// of the answer, and the next frame is whole again.
func TestTopChanges(t *testing.T) {
	c := asktest.New(t, "")
	node := func(name, state string) string {
		return `{"name":"` + name + `","state":"` + state + `","devices":[]}`
	}
	c.Answer(query.PathNodes, asktest.Answer{Body: `{"at":"2026-11-16T09:41:07Z","version":17,"items":[` + node("a", "ready") + "," + node("b", "ready") + "," + node("c", "ready") + `]}`})
	c.Answer(query.PathNodes+"?since=17", asktest.Answer{Body: `{"at":"2026-11-16T09:41:09Z","version":18,"partial":true,"items":[` + node("b", "lost") + "," + node("d", "ready") + `],"removed":["c"]}`})
	c.Answer(query.PathNodes+"?since=18", asktest.Answer{Status: 403, Body: `{"status":403,"reason":"Forbidden","message":"not any more"}`})
	c.Answer(query.PathNodes+"?since=18", asktest.Answer{Body: `{"at":"2026-11-16T09:41:11Z","version":3,"items":[` + node("e", "ready") + `]}`}) // another leader
	client, err := ask.New(ask.Options{Kubeconfig: c.Kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	view := &top{asking: &asking{client: client}}
	for i, want := range []string{"a ready, b ready, c ready", "a ready, b lost, d ready", "not any more", "e ready"} {
		var out bytes.Buffer
		view.draw(t.Context(), viewNodes, terminal.New(nil, &out, io.Discard))
		var rows []string
		for _, line := range strings.Split(out.String(), "\n") {
			if f := strings.Fields(line); len(f) > 2 && f[2] == "0" {
				rows = append(rows, f[0]+" "+f[1])
			}
		}
		if got := strings.Join(rows, ", "); got != want && !strings.HasPrefix(out.String(), want) {
			t.Errorf("frame %d: %q, want %q", i, got, want)
		}
	}
}

package web

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/test/web/fake"
)

// TestScreenshots writes the pictures of docs/guides/web.md.
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("only with -screenshots FOLDER")
	}
	fleet := fake.New(256, false)
	fleet.Start(query.GangRef{Namespace: "research", Name: "waits-0"}) // for the plan
	url := site(t, fleet, true)
	v := visit(t)
	for _, shot := range []struct {
		name, hash, scheme string
		width, height      int
		ratio              float64
	}{
		{"fleet-light", "#/fleet?by=queue", "light", 1280, 900, 1},
		{"fleet-dark", "#/fleet", "dark", 1280, 900, 1},
		{"fleet-phone", "#/fleet", "light", 360, 740, 2},
		{"queues-light", "#/queues/batch", "light", 1280, 760, 1},
		{"queues-dark", "#/queues/batch", "dark", 1280, 760, 1},
		{"queues-phone", "#/queues/batch", "dark", 360, 740, 2},
		{"why-light", "#/why/research/llama", "light", 1280, 900, 1},
		{"why-dark", "#/why/research/llama", "dark", 1280, 900, 1},
		{"why-phone", "#/why/research/llama", "light", 360, 740, 2},
		{"plan-light", "#/plan/research/waits-0", "light", 1280, 500, 1},
		{"plan-dark", "#/plan/research/waits-0", "dark", 1280, 500, 1},
		{"plan-phone", "#/plan/research/waits-0", "dark", 360, 740, 2},
	} {
		v.do(func(ctx context.Context) error { return v.Resize(ctx, shot.width, shot.height, shot.ratio) })
		v.do(func(ctx context.Context) error { return v.Prefers(ctx, shot.scheme) })
		v.open("about:blank")
		v.open(url + "/" + shot.hash)
		v.shown()
		eval[any](v, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))`)
		var png []byte
		v.do(func(ctx context.Context) (err error) { png, err = v.Screenshot(ctx); return err })
		if err := os.WriteFile(filepath.Join(*screenshots, "web-"+shot.name+".png"), png, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

package local

import (
	"context"
	"os"
	"testing"
	"time"
)

func TestScratch(t *testing.T) {
	crd, err := os.ReadFile("../../config/crd/tangram.dev_gpunodes.yaml")
	if err != nil { t.Fatal(err) }
	ctx := context.Background()
	dir := t.TempDir()
	for range 2 {
	begin := time.Now()
	c, err := Start(ctx, Options{Dir: dir, Bin: "../../bin", Out: os.Stdout, ControllerManager: os.Getenv("KCM") != "", KWOK: os.Getenv("KCM") != ""})
	if err != nil { t.Fatal(err) }
	t.Log("started", time.Since(begin))
	if err := c.ApplyManifests(ctx, crd); err != nil { t.Fatal(err) }
	t.Log("crd", time.Since(begin))
	if err := c.CreateFleet(ctx, DefaultFleet()); err != nil { t.Error(err) }
	t.Log("fleet", time.Since(begin))
	if err := c.CreateFleet(ctx, UniformFleet(1000, 8)); err != nil { t.Error(err) }
	t.Log("fleet1000", time.Since(begin))
	if os.Getenv("PAUSE") != "" { println(c.Kubeconfig()); d, _ := time.ParseDuration(os.Getenv("PAUSE")); time.Sleep(d) }
	b2 := time.Now()
	if err := c.Stop(); err != nil { t.Error(err) }
	t.Log("stop", time.Since(b2))
	}
}

package local

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// TestComponent: a component gets flags of the kind it reads, an identity of its own, and a
// configuration only if there is one.
func TestComponent(t *testing.T) {
	c, _ := openTest(t)
	var err error
	if c.authority, err = openAuthority(filepath.Join(c.dir, "pki"), "ca", time.Now()); err != nil {
		t.Fatal(err)
	}
	flag := func(p Program, name string) string {
		for _, a := range p.Args {
			if value, ok := strings.CutPrefix(a, "--"+name+"="); ok {
				return value
			}
		}
		return ""
	}
	user := func(p Program) string {
		settings, err := clientcmd.LoadFromFile(flag(p, "kubeconfig"))
		if err != nil {
			t.Fatal(err)
		}
		return settings.Contexts[settings.CurrentContext].AuthInfo
	}

	p, s, err := c.program(Component{Name: "gpu-scheduler", As: "second", Config: []byte("a: b"), Answers: true, Restart: true, Flags: []string{"-v=3"}})
	if err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(flag(p, "config"))
	if err != nil || string(written) != "a: b" {
		t.Errorf("configuration %q, error %v", written, err)
	}
	if p.Name != "second" || filepath.Base(p.Path) != "gpu-scheduler" || !p.Restart || user(p) != "system:tangram:gpu-scheduler" || flag(p, "authentication-kubeconfig") == "" {
		t.Errorf("scheduler: %+v", p)
	}
	if flag(p, "secure-port") != strconv.Itoa(s.Port) || flag(p, "query-listen") != "127.0.0.1:"+strconv.Itoa(s.QueryPort) || s.Port == s.QueryPort || !slices.Contains(p.Args, "-v=3") {
		t.Errorf("scheduler at %+v: %q", s, p.Args)
	}

	p, s, err = c.program(Component{Name: "gpu-controller"})
	if err != nil {
		t.Fatal(err)
	}
	if p.Name != "gpu-controller" || p.Restart || user(p) != "system:tangram:gpu-controller" || flag(p, "config") != "" || flag(p, "query-listen") != "" || s.QueryPort != 0 {
		t.Errorf("controller: %+v", p)
	}
	if flag(p, "listen") != "127.0.0.1:"+strconv.Itoa(s.Port) || flag(p, "secure-port") != "" {
		t.Errorf("controller at %+v: %q", s, p.Args)
	}
}

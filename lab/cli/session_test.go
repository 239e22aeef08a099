package cli

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/examples"
	"github.com/tangram-dev/tangram/internal/cli"
)

// TestNextSteps: what tangram up ends with names commands that there are and objects that
// the demo has.
func TestNextSteps(t *testing.T) {
	manifests := string(bytes.Join(examples.Demo(), []byte("\n")))
	for _, demo := range []bool{true, false} {
		s := newSession(upOptions{bin: "/opt/tangram", dir: "/tmp/state", demo: demo}, nil)
		steps := s.nextSteps()
		if !slices.ContainsFunc(steps, func(n nextStep) bool { return strings.Contains(n.command, "tangram why ") }) || !slices.ContainsFunc(steps, func(n nextStep) bool { return strings.HasSuffix(n.command, "tangram top") }) {
			t.Errorf("demo %v: %v have no why or no top", demo, steps)
		}
		for _, n := range steps {
			words := strings.Fields(n.command)
			if filepath.Base(words[0]) != "tangram" {
				continue
			}
			cmd, args, err := cli.New(Commands()...).Find(words[1:])
			if err != nil || cmd.Name() != words[1] {
				t.Errorf("%s: %v", n.command, err)
				continue
			}
			if err := cmd.ParseFlags(args); err != nil {
				t.Errorf("%s: %v", n.command, err)
			}
			for _, object := range cmd.Flags().Args() {
				if name := strings.TrimSuffix(object, "-worker-0"); !strings.Contains(manifests, "name: "+name+"\n") { // a Volcano Job's pods
					t.Errorf("%s: the demo has no %s", n.command, name)
				}
			}
		}
	}
}

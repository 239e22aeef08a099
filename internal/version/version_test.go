package version

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestResolve(t *testing.T) {
	build := func(main string, settings ...debug.BuildSetting) func() (*debug.BuildInfo, bool) {
		return func() (*debug.BuildInfo, bool) {
			return &debug.BuildInfo{Main: debug.Module{Version: main}, Settings: settings}, true
		}
	}
	commit := debug.BuildSetting{Key: "vcs.revision", Value: "0104de1"}
	for _, test := range []struct {
		name, linked string
		read         func() (*debug.BuildInfo, bool)
		want         string
	}{
		{"the linker's word goes first", "v1.0.0", build("v2.0.0", commit), "v1.0.0"},
		{"then the module's version", "", build("v2.0.0", commit), "v2.0.0"},
		{"then the commit", "", build("(devel)", commit), "0104de1"},
		{"a build without any", "", build("(devel)"), Unknown},
		{"no build information", "", func() (*debug.BuildInfo, bool) { return nil, false }, Unknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := resolve(test.linked, test.read); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
	if line := Get().String(); !strings.Contains(line, "go1.") || !strings.Contains(line, "/") {
		t.Errorf("%q names no compiler or platform", line)
	}
}

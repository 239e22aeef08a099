// Package version says which build of Tangram a program is. The linker sets the version
// (hack/build.sh); a program built in another way says what Go itself knows of it.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the linker (-X github.com/tangram-dev/tangram/internal/version.version=v1.2.3).
var version string

// Unknown is the version of a program that neither the linker nor Go knows one of, such
// as a test.
const Unknown = "unknown"

// Info is what a build is told apart by.
type Info struct {
	Version  string // a tag, or what git describe says: v0.2.0-14-g0104de1-dirty
	Go       string // of the compiler
	Platform string // operating system and processor, as in linux/amd64
}

// Get returns what this program was built from.
func Get() Info {
	return Info{Version: resolve(version, debug.ReadBuildInfo), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
}

// String is one line for people: "v0.2.0 (go1.26.8, linux/amd64)".
func (i Info) String() string { return fmt.Sprintf("%s (%s, %s)", i.Version, i.Go, i.Platform) }

// resolve prefers the linker's word, then the module's version (go install ...@v0.2.0),
// then the commit.
func resolve(linked string, read func() (*debug.BuildInfo, bool)) string {
	if linked != "" {
		return linked
	}
	build, ok := read()
	if !ok {
		return Unknown
	}
	if v := build.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range build.Settings {
		if s.Key == "vcs.revision" && s.Value != "" {
			return s.Value
		}
	}
	return Unknown
}

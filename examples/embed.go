// Package examples embeds the sample workloads, so that tangram up
// --demo submits exactly the manifests people read here.
package examples

import (
	"embed"
	"io/fs"
)

//go:embed demo/*.yaml
var files embed.FS

// Demo returns the demo's manifests in the order of their file names: the
// namespace first.
func Demo() [][]byte {
	names, err := fs.Glob(files, "demo/*.yaml")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	manifests := make([][]byte, 0, len(names))
	for _, name := range names {
		data, err := files.ReadFile(name)
		if err != nil {
			panic(err) // Glob has just listed it
		}
		manifests = append(manifests, data)
	}
	return manifests
}

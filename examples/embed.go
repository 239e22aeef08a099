// Package examples embeds the sample workloads, so that tangram up
// --demo submits exactly the manifests people read here.
package examples

import (
	"embed"
	"io/fs"
)

//go:embed agent/*.yaml demo/*.yaml tenants/*.yaml volcano/*.yaml
var files embed.FS

// Demo returns the demo's manifests in the order of their file names: the
// namespace first.
func Demo() [][]byte { return manifests("demo/*.yaml") }

// Volcano returns the Volcano Jobs of the requirement documents, in the order of their
// file names: the queue they use first.
func Volcano() [][]byte { return manifests("volcano/*.yaml") }

// Agent returns the manifests of the node agent, as an observer and as a device plugin.
func Agent() [][]byte { return manifests("agent/*.yaml") }

// Tenants returns teams with their queues, roles, quotas and limits, in the order of their
// file names. Without the policies of config/tenants nothing enforces the queues.
func Tenants() [][]byte { return manifests("tenants/*.yaml") }

func manifests(pattern string) [][]byte {
	names, err := fs.Glob(files, pattern)
	if err != nil {
		panic(err) // the pattern is a constant
	}
	out := make([][]byte, 0, len(names))
	for _, name := range names {
		data, err := files.ReadFile(name)
		if err != nil {
			panic(err) // Glob has just listed it
		}
		out = append(out, data)
	}
	return out
}

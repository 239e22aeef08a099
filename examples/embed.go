// Package examples embeds the sample workloads, so that tangram up
// --demo submits exactly the manifests people read here.
package examples

import (
	"embed"
	"io/fs"
	"strings"
)

//go:embed agent/*.yaml demo/*.yaml tenants/*.yaml documents/*.yaml documents/*/*.yaml
var files embed.FS

// Demo returns the demo's manifests in the order of their file names: the
// namespace first.
func Demo() [][]byte { return manifests("demo/*.yaml") }

// Agent returns the manifests of the node agent, as an observer and as a device plugin.
func Agent() [][]byte { return manifests("agent/*.yaml") }

// Tenants returns teams with their queues, roles, quotas and limits, in the order of their
// file names, and last the namespace, quota and limits of requirement document 003. Without
// the policies of config/tenants nothing enforces the queues.
func Tenants() [][]byte {
	return append(manifests("tenants/*.yaml"), Document("003/7.2-quota.yaml"))
}

// Documents are the paths of all manifests of the requirement documents, sorted, such as
// 003/5.1-training-job.yaml.
func Documents() []string {
	paths, err := fs.Glob(files, "documents/*/*.yaml")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	for i := range paths {
		paths[i] = strings.TrimPrefix(paths[i], "documents/")
	}
	return paths
}

// Document is one of Documents, or of what they presuppose: queue.yaml (the queue training),
// volumes.yaml (volumes for claims), fleet.yaml (simulated nodes for all of them). The path
// must exist.
func Document(path string) []byte {
	data, err := files.ReadFile("documents/" + path)
	if err != nil {
		panic(err) // the paths are constants, or those of Documents
	}
	return data
}

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

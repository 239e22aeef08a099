package cluster

import "github.com/tangram-dev/tangram/internal/local"

// Alone is the flag of a component that has no replicas: it need not wait to lead.
const Alone = "--leader-elect=false"

// Tangram are a scheduler, with a configuration or nil, and a controller, each alone.
func Tangram(scheduler []byte) []local.Component {
	return []local.Component{{Name: "gpu-scheduler", Config: scheduler, Flags: []string{Alone}}, {Name: "gpu-controller", Flags: []string{Alone}}}
}

package agent

import (
	"context"

	"github.com/spf13/pflag"
	restclient "k8s.io/client-go/rest"

	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/internal/agent/kubeapi"
)

// Simulator is hardware that --backend=simulated chooses instead of the node's: back ends for
// nodes that need not exist. The program gives NewCommand one.
type Simulator interface {
	// AddFlags adds the simulator's flags. Validate names the one that is wrong; chosen says
	// whether the simulator is the back end.
	AddFlags(f *pflag.FlagSet)
	Validate(chosen bool) error
	// Open makes the hardware. It is called once, before the methods below.
	Open(rest *restclient.Config, pods *kubeapi.Pods) error
	// Nodes are the names of the nodes that have GPUs, Backend is the hardware of one.
	Nodes() []string
	Backend(node string) device.Backend
	// Run keeps the hardware busy with what the API server has, until the context ends.
	Run(ctx context.Context) error
}

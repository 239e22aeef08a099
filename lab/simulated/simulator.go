package simulated

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
	"k8s.io/client-go/metadata"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tangram-dev/tangram/internal/agent/kubeapi"
	"github.com/tangram-dev/tangram/lab/fleet"
)

// Simulator is the hardware of a fleet file, as gpu-agent's flags describe it: gpu-agent's
// simulated back end.
type Simulator struct {
	*Fleet // nil until Open

	file, deviceNodes string
	options           Options
	pods, gpuNodes    cache.SharedIndexInformer
}

// AddFlags adds the flags of the simulation.
func (s *Simulator) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&s.file, "fleet", "", "fleet file of the simulated back end")
	f.StringVar(&s.deviceNodes, "simulated-device-nodes", "", "folder, or comma-separated paths, of device nodes that stand for the simulated devices")
	f.StringVar(&s.options.Memory, "simulated-memory", "", "folder in which simulated devices keep MIG instances over a restart")
	f.Float64Var(&s.options.Speed, "simulated-speed", 1, "how much faster than in reality simulated devices warm up")
}

// Validate names the flag that is wrong.
func (s *Simulator) Validate(chosen bool) error {
	switch {
	case chosen && s.file == "":
		return errors.New("--fleet: missing, the simulated back end needs one")
	case !chosen && s.file != "":
		return errors.New("--fleet: is for --backend=simulated")
	case s.options.Speed <= 0:
		return fmt.Errorf("--simulated-speed: must be above 0, is %v", s.options.Speed)
	}
	return nil
}

// Open makes the hardware of the fleet file.
func (s *Simulator) Open(rest *restclient.Config, pods *kubeapi.Pods) error {
	text, err := os.ReadFile(s.file)
	if err != nil {
		return fmt.Errorf("--fleet: %w", err)
	}
	f, err := fleet.Parse(filepath.Base(s.file), text)
	if err != nil {
		return fmt.Errorf("--fleet: %w", err)
	}
	if s.deviceNodes != "" {
		if s.options.DeviceNodes, err = ParseDeviceNodes(s.deviceNodes); err != nil {
			return fmt.Errorf("--simulated-device-nodes: %w", err)
		}
	}
	if s.Fleet, err = New(f, s.options); err != nil {
		return err
	}
	client, err := metadata.NewForConfig(rest)
	if err != nil {
		return err
	}
	s.gpuNodes = FaultInformer(client)
	s.pods, err = PodInformer(pods)
	return err
}

// Run feeds the hardware with the cluster's pods and faults until the context ends.
func (s *Simulator) Run(ctx context.Context) error { return Watch(ctx, s.pods, s.gpuNodes, s.Fleet) }

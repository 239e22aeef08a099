package local

import (
	"context"
	"os"
	"path/filepath"
)

// schedulerComponent serves as Kubernetes' components do, the others as programs of ours.
const schedulerComponent = "gpu-scheduler"

// Component is one of Tangram's programs to run beside the control plane: on loopback ports,
// and as the user for whom config/ has the rights.
type Component struct {
	// Name is its file's, in the folder of the programs: gpu-scheduler, gpu-controller, ...
	Name string
	// As names the process and its log; Name when empty. Several may run, with different
	// names.
	As string
	// Config is what the file of --config has; without one there is no such flag.
	Config []byte
	// Answers makes gpu-scheduler answer questions, at QueryPort.
	Answers bool
	// Restart says whether to start it again when it exits by itself.
	Restart bool
	// Ready is the path that says that it may be used; /healthz when empty.
	Ready string
	// Flags are added to those of where it serves, and with what identity.
	Flags []string
}

// Serving is a component that runs.
type Serving struct {
	*Process
	// Port is where it says how it is, and its metrics; QueryPort where it answers.
	Port, QueryPort int
}

// Launch starts a component and returns once it is ready. ctx bounds the wait, as in Run.
func (c *Cluster) Launch(ctx context.Context, o Component) (*Serving, error) {
	program, out, err := c.program(o)
	if err != nil {
		return nil, err
	}
	if out.Process, err = c.Run(ctx, program); err != nil {
		return nil, err
	}
	return out, nil
}

// program is what Run needs to know of a component, with the ports on which it will serve.
func (c *Cluster) program(o Component) (Program, *Serving, error) {
	if o.As == "" {
		o.As = o.Name
	}
	if o.Ready == "" {
		o.Ready = "/healthz"
	}
	kubeconfig, err := c.KubeconfigFor("system:tangram:" + o.Name)
	if err != nil {
		return Program{}, nil, err
	}
	ports, err := freePorts(2)
	if err != nil {
		return Program{}, nil, err
	}
	out := &Serving{Port: ports[0]}
	args := append(c.ListenArgs(out.Port), "--kubeconfig="+kubeconfig)
	if o.Name == schedulerComponent {
		args = c.ServeArgs(out.Port, kubeconfig)
	}
	if o.Config != nil {
		file := filepath.Join(c.dir, o.As+".yaml")
		if err := os.WriteFile(file, o.Config, 0o600); err != nil {
			return Program{}, nil, err
		}
		args = append(args, "--config="+file)
	}
	if o.Answers {
		out.QueryPort = ports[1]
		args = append(args, QueryArg(out.QueryPort))
	}
	ready, err := c.ReadyAt(out.Port, o.Ready)
	if err != nil {
		return Program{}, nil, err
	}
	return Program{
		Name: o.As, Path: filepath.Join(c.bin, o.Name), Args: append(args, o.Flags...), Restart: o.Restart, Ready: ready,
	}, out, nil
}

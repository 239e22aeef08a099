package local

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"time"
)

// schedulerComponent serves as Kubernetes' components do, the others as programs of ours.
const schedulerComponent = "gpu-scheduler"

// Component is a program to run beside the API server, on loopback ports: one of Tangram's,
// as the user that config/ gives the rights to, or one of Kubernetes'.
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
	// Lease makes it one of several replicas that elect a leader, and is how long the leader's
	// lease lasts; 0 for what Flags say.
	Lease time.Duration
	// Ready is the path that says that it may be used; /healthz when empty.
	Ready string
	// Flags are added to those of where it serves, and with what identity.
	Flags []string

	// user is the name of a component of Kubernetes towards the API server; works, if not nil,
	// must return nil, too, before it counts as ready.
	user  string
	works func(context.Context) error
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
	o.As = cmp.Or(o.As, o.Name)
	kubeconfig, err := c.KubeconfigFor(cmp.Or(o.user, "system:tangram:"+o.Name))
	if err != nil {
		return Program{}, nil, err
	}
	ports, err := freePorts(2)
	if err != nil {
		return Program{}, nil, err
	}
	out := &Serving{Port: ports[0]}
	args := append(c.ListenArgs(out.Port), "--kubeconfig="+kubeconfig)
	if o.Name == schedulerComponent || o.user != "" {
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
	if o.Lease > 0 {
		args = append(args, electionArgs(o.Lease)...)
	}
	serves, err := c.ReadyAt(out.Port, cmp.Or(o.Ready, "/healthz"))
	if err != nil {
		return Program{}, nil, err
	}
	ready := func(ctx context.Context) error {
		if err := serves(ctx); err != nil || o.works == nil {
			return err
		}
		return o.works(ctx)
	}
	return Program{
		Name: o.As, Path: filepath.Join(c.bin, o.Name), Args: append(args, o.Flags...), Restart: o.Restart, Ready: ready,
	}, out, nil
}

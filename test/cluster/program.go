package cluster

import (
	"context"
	"os"
	"path/filepath"

	"github.com/tangram-dev/tangram/internal/local"
)

// Program is one of Tangram's to start, under its own rights: as the user of config/.
type Program struct {
	// Name is its file's: gpu-scheduler, gpu-controller, gpu-agent.
	Name string
	// As names the process and its log; Name when empty. A cluster may have several.
	As string
	// Config is what the file of --config has; without one there is no such flag.
	Config []byte
	// Answers makes gpu-scheduler answer questions, at the process's QueryPort.
	Answers bool
	// Ready is the path that says that it may be used; /healthz when empty.
	Ready string
	// Flags are added to those of where it serves, and with what identity.
	Flags []string
}

// Alone is the flag of a program that has no replicas: it need not wait to lead.
const Alone = "--leader-elect=false"

// Tangram are a scheduler, with a configuration or nil, and a controller, each alone.
func Tangram(scheduler []byte) []Program {
	return []Program{{Name: "gpu-scheduler", Config: scheduler, Flags: []string{Alone}}, {Name: "gpu-controller", Flags: []string{Alone}}}
}

// Process is a program of Tangram that runs. It serves with TLS on loopback.
type Process struct {
	*local.Process
	// Port is where it says how it is, and its metrics; QueryPort where it answers.
	Port, QueryPort int
}

// Launch starts a program and returns once it says that it is ready. ctx bounds the wait.
func (c *Cluster) Launch(ctx context.Context, p Program) (*Process, error) {
	if p.As == "" {
		p.As = p.Name
	}
	if p.Ready == "" {
		p.Ready = "/healthz"
	}
	kubeconfig, err := c.KubeconfigFor("system:tangram:" + p.Name)
	if err != nil {
		return nil, err
	}
	out := &Process{}
	if out.Port, err = local.FreePort(); err != nil {
		return nil, err
	}
	args := append(c.ListenArgs(out.Port), "--kubeconfig="+kubeconfig)
	if p.Name == "gpu-scheduler" {
		args = c.ServeArgs(out.Port, kubeconfig)
	}
	if p.Config != nil {
		file := filepath.Join(c.Dir(), p.As+".yaml")
		if err := os.WriteFile(file, p.Config, 0o600); err != nil {
			return nil, err
		}
		args = append(args, "--config="+file)
	}
	if p.Answers {
		if out.QueryPort, err = local.FreePort(); err != nil {
			return nil, err
		}
		args = append(args, local.QueryArg(out.QueryPort))
	}
	ready, err := c.ReadyAt(out.Port, p.Ready)
	if err != nil {
		return nil, err
	}
	out.Process, err = c.Run(ctx, local.Program{Name: p.As, Path: filepath.Join(c.Bin, p.Name), Args: append(args, p.Flags...), Ready: ready})
	if err != nil {
		return nil, err
	}
	return out, nil
}

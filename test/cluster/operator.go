package cluster

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/lab/operators"
)

// Operator is an operator of another project to run, with what is added to its
// configuration, arguments and environment.
type Operator struct {
	Name, Config string
	Args, Env    []string
}

// RunOperator starts an operator and returns once its webhooks answer.
func (c *Cluster) RunOperator(ctx context.Context, o Operator) (*local.Process, error) {
	return operators.Run(ctx, o.Name, operators.Options{Cluster: c.Cluster, Bin: c.Bin, Config: o.Config, Args: o.Args, Env: o.Env})
}

// defineKinds applies the CRDs of operators before any of them and gpu-scheduler start: Kueue
// asks at its start which kinds exist. CRDs with a conversion webhook follow with their
// operator, which answers it.
func (c *Cluster) defineKinds(ctx context.Context, list []Operator) error {
	for _, o := range list {
		data, err := os.ReadFile(filepath.Join(c.Bin, "operators", o.Name+".crds.yaml"))
		if err != nil {
			return err
		}
		for _, doc := range strings.Split("\n"+string(data), "\n---") {
			if !strings.Contains(doc, "\nkind: CustomResourceDefinition") || strings.Contains(doc, "\n  conversion:") {
				continue
			}
			if err := c.ApplyManifests(ctx, []byte(doc)); err != nil {
				return err
			}
		}
	}
	return nil
}

package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"

	"github.com/tangram-dev/tangram/lab/local"
)

// StockScheduler starts a kube-scheduler as a user, with a configuration that does not say
// yet how it reaches the API server: it takes that from the file alone. The process gets a
// name. ctx bounds the wait until it is healthy.
func (c *Cluster) StockScheduler(ctx context.Context, name, user, configuration string) (*local.Process, error) {
	kubeconfig, err := c.KubeconfigFor(user)
	if err != nil {
		return nil, err
	}
	port, err := local.FreePort()
	if err != nil {
		return nil, err
	}
	ready, err := c.ReadyAt(port, "/healthz")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(c.Dir(), name+".yaml")
	configuration += fmt.Sprintf("\nclientConnection: {kubeconfig: %s}\nleaderElection: {leaderElect: false}\n", kubeconfig)
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		return nil, err
	}
	return c.Run(ctx, local.Program{Name: name, Path: filepath.Join(c.Bin, "kube-scheduler"), Args: append(c.ServeArgs(port, kubeconfig), "--config="+file), Ready: ready})
}

// CertificateFiles writes the certificates of a user's configuration to a folder and returns
// where they are, as the tlsConfig of an extender in a scheduler's configuration.
func CertificateFiles(folder string, user *rest.Config) (tlsConfig string, err error) {
	path := func(name string) string { return filepath.Join(folder, name) }
	for name, data := range map[string][]byte{"ca.crt": user.CAData, "client.crt": user.CertData, "client.key": user.KeyData} {
		if err := os.WriteFile(path(name), data, 0o600); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("caFile: %s, certFile: %s, keyFile: %s", path("ca.crt"), path("client.crt"), path("client.key")), nil
}

package local

import (
	"context"
	_ "embed"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// KWOK plays the kubelet of every node that has this annotation.
const (
	simulatedKey   = "kwok.x-k8s.io/node"
	simulatedValue = "fake"
)

//go:embed stages.yaml
var kwokStages []byte

// startKWOK runs KWOK as the kubelets of all simulated nodes. As such it may do
// what the administrator may, under a name of its own.
func (c *Cluster) startKWOK(ctx context.Context) error {
	kubeconfig, err := c.KubeconfigFor("tangram-kwok", adminGroup)
	if err != nil {
		return err
	}
	stages := filepath.Join(c.dir, "kwok.yaml")
	if err := os.WriteFile(stages, kwokStages, 0o600); err != nil {
		return err
	}
	port, err := FreePort()
	if err != nil {
		return err
	}
	ready, err := c.ReadyAt(port, "/healthz")
	if err != nil {
		return err
	}
	pki := filepath.Join(c.dir, "pki")
	_, err = c.Run(ctx, Program{
		Name: kwokProgram, Path: filepath.Join(c.bin, kwokProgram), Restart: true, Ready: ready,
		Args: []string{
			"--config=" + stages, "--kubeconfig=" + kubeconfig,
			"--manage-all-nodes=false",
			"--manage-nodes-with-annotation-selector=" + simulatedKey + "=" + simulatedValue,
			"--node-lease-duration-seconds=40", // as a kubelet's
			"--cidr=10.128.0.0/9",
			"--server-address=" + net.JoinHostPort(loopback, strconv.Itoa(port)),
			"--tls-cert-file=" + filepath.Join(pki, "server.crt"),
			"--tls-private-key-file=" + filepath.Join(pki, "server.key"),
		},
	})
	return err
}

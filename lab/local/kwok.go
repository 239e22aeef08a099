package local

import (
	"context"
	_ "embed"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tangram-dev/tangram/lab/fleet"
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
		Name: kwokProgram, Path: filepath.Join(c.bin, kwokProgram), Restart: true, Prepare: c.freeLeases, Ready: ready,
		Args: []string{
			"--config=" + stages, "--kubeconfig=" + kubeconfig,
			"--manage-all-nodes=false",
			"--manage-nodes-with-annotation-selector=" + fleet.AnnotationSimulated + "=" + fleet.Simulated,
			"--node-lease-duration-seconds=40", // as a kubelet's
			"--cidr=10.128.0.0/9",
			"--server-address=" + net.JoinHostPort(loopback, strconv.Itoa(port)),
			"--tls-cert-file=" + filepath.Join(pki, "server.crt"),
			"--tls-private-key-file=" + filepath.Join(pki, "server.key"),
		},
	})
	return err
}

// freeLeases deletes the simulated nodes' leases. Every KWOK process has a name of
// its own, and leaves a node and its pods alone until the lease of the one before
// has run out: 40 seconds in which no pod would start.
func (c *Cluster) freeLeases(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		return err
	}
	leases := client.CoordinationV1().Leases(v1.NamespaceNodeLease)
	list, err := leases.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list node leases: %w", err)
	}
	return inParallel(ctx, list.Items, func(ctx context.Context, l coordinationv1.Lease) error {
		if holder := l.Spec.HolderIdentity; holder == nil || *holder == l.Name {
			return nil // a real kubelet's: it goes by its node's name
		}
		if err := leases.Delete(ctx, l.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete node lease %s: %w", l.Name, err)
		}
		return nil
	})
}

package node

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/tangram-dev/tangram/lab/local"
)

// Kubelet is what a test chooses of kubelet's configuration.
type Kubelet struct {
	// TopologyPolicy is none, best-effort, restricted or single-numa-node; TopologyScope
	// container or pod. Empty means kubelet's default: none, container.
	TopologyPolicy, TopologyScope string
}

// configuration is a kubelet's that keeps to the node's folder and control group and
// never evicts a pod for what others do to the machine.
func (n *Node) configuration(port, healthPort int32) *kubeletv1beta1.KubeletConfiguration {
	no, yes := false, true
	policy, scope := n.kubeletOptions.TopologyPolicy, n.kubeletOptions.TopologyScope
	if policy == "" {
		policy = "none"
	}
	if scope == "" {
		scope = "container"
	}
	zero, hundred := int32(0), int32(100)
	return &kubeletv1beta1.KubeletConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: "kubelet.config.k8s.io/v1beta1", Kind: "KubeletConfiguration"},
		Address:  "127.0.0.1", Port: port, HealthzBindAddress: "127.0.0.1", HealthzPort: &healthPort,
		Authentication: kubeletv1beta1.KubeletAuthentication{
			Anonymous: kubeletv1beta1.KubeletAnonymousAuthentication{Enabled: &yes},
			Webhook:   kubeletv1beta1.KubeletWebhookAuthentication{Enabled: &no},
		},
		Authorization:            kubeletv1beta1.KubeletAuthorization{Mode: kubeletv1beta1.KubeletAuthorizationModeAlwaysAllow},
		ContainerRuntimeEndpoint: "unix://" + n.containerdSocket(),
		CgroupDriver:             "cgroupfs", CgroupRoot: "/" + n.cgroup,
		FailCgroupV1: &no, FailSwapOn: &no, LocalStorageCapacityIsolation: &no,
		MakeIPTablesUtilChains: &no,
		PodLogsDir:             n.path("log", "pods"),
		ResolverConfig:         new(string),
		OOMScoreAdj:            &zero,
		MaxPods:                60,
		// A busy disk of the machine is no reason to refuse pods.
		EvictionHard: map[string]string{
			"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%",
			"imagefs.available": "0%", "imagefs.inodesFree": "0%", "pid.available": "0%",
		},
		ImageGCHighThresholdPercent: &hundred,
		// A new device, or one gone, is to be seen in the Node at once.
		NodeStatusUpdateFrequency: metav1.Duration{Duration: time.Second},
		NodeStatusReportFrequency: metav1.Duration{Duration: 10 * time.Second},
		SyncFrequency:             metav1.Duration{Duration: 2 * time.Second},
		TopologyManagerPolicy:     policy, TopologyManagerScope: scope,
	}
}

// startKubelet writes the configuration and returns once kubelet answers.
func (n *Node) startKubelet() error {
	port, err := local.FreePort()
	if err != nil {
		return err
	}
	healthPort, err := local.FreePort()
	if err != nil {
		return err
	}
	config, err := json.Marshal(n.configuration(int32(port), int32(healthPort)))
	if err != nil {
		return err
	}
	file := n.path("kubelet.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return err
	}
	// As an administrator, too: the API server's node authorizer hears of a pod later than
	// kubelet, which then waits 10 s before it says again that it refused the pod.
	kubeconfig, err := n.cluster.KubeconfigFor("system:node:"+n.Name, "system:nodes", "system:masters")
	if err != nil {
		return err
	}
	p, err := n.space.run(n.path("log", "kubelet.log"), filepath.Join(n.machine.bin, "kubelet"), nil,
		"--config="+file, "--kubeconfig="+kubeconfig, "--root-dir="+n.KubeletDir(), "--cert-dir="+n.path("kubelet", "pki"),
		"--hostname-override="+n.Name, "--v=2")
	if err != nil {
		return err
	}
	n.kubelet, n.kubeletPort = p, port
	return p.awaitReady(time.Minute, func() error {
		answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/healthz", healthPort))
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("healthz says %s", answer.Status)
		}
		// It says so before it serves device plugins and those who ask about them.
		return errors.Join(answers(n.path("kubelet", "device-plugins", "kubelet.sock")), answers(n.path("kubelet", "pod-resources", "kubelet.sock")))
	})
}

// anchor is a pod that is always there. When kubelet lists it, it has heard from the API
// server which pods there are. Before, it counts the devices of pods that are gone as
// taken, and refuses new ones for that.
const anchor = "anchor"

func (n *Node) createAnchor() error {
	pod := n.Pod(anchor, nil, func(p *v1.Pod) {
		p.Namespace = metav1.NamespaceSystem
		p.Spec.HostNetwork = true
	})
	_, err := n.client.CoreV1().Pods(pod.Namespace).Create(context.Background(), pod, metav1.CreateOptions{})
	return err
}

// awaitAnchor waits until kubelet knows its pods.
func (n *Node) awaitAnchor() {
	n.t.Helper()
	// Its certificate is its own.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	eventually(n.t, time.Minute, "kubelet knows its pods", func(context.Context) error {
		answer, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d/pods", n.kubeletPort))
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		var pods v1.PodList
		if err := json.NewDecoder(answer.Body).Decode(&pods); err != nil {
			return err
		}
		for _, p := range pods.Items {
			if p.Name == anchor {
				return nil
			}
		}
		return fmt.Errorf("it lists %d pods", len(pods.Items))
	})
}

// answers says whether a process listens on a socket.
func answers(socket string) error {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	return c.Close()
}

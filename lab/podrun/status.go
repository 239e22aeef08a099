package podrun

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tangram-dev/tangram/lab/local"
)

// probeInterval is how often readiness is asked. The pod's own periods are for clusters
// with thousands of probes.
const probeInterval = 300 * time.Millisecond

// probe asks the readiness probe until the process ends or the pod is to end, and reports
// changes. A container without one is ready while it runs.
func (p *pod) probe(ctx context.Context, i int, process *local.Process) {
	c := &p.object.Spec.Containers[i]
	if c.ReadinessProbe == nil || c.ReadinessProbe.HTTPGet == nil {
		p.ready(ctx, i, true)
		return
	}
	client := &http.Client{
		Timeout: 5 * time.Second,
		// Certificates are not checked, as kubelet's probes do not check them.
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
	}
	for {
		p.ready(ctx, i, ask(ctx, client, p.url(c)))
		select {
		case <-process.Done():
			p.ready(ctx, i, false)
			return
		case <-ctx.Done():
			return
		case <-time.After(probeInterval):
		}
	}
}

// url is what the readiness probe asks.
func (p *pod) url(c *v1.Container) string {
	get := c.ReadinessProbe.HTTPGet
	port := get.Port.IntValue()
	if get.Port.Type == intstr.String {
		for _, named := range c.Ports {
			if named.Name == get.Port.StrVal {
				port = int(named.ContainerPort)
			}
		}
	}
	scheme := "http"
	if get.Scheme == v1.URISchemeHTTPS {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(p.address, strconv.Itoa(port)) + get.Path
}

// ask says whether the answer is a success, by kubelet's measure.
func ask(ctx context.Context, client *http.Client, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode >= http.StatusOK && response.StatusCode < http.StatusBadRequest
}

// ready reports the probe's answer if it is another than before.
func (p *pod) ready(ctx context.Context, i int, now bool) {
	p.mu.Lock()
	before := p.probed[i]
	p.probed[i] = now
	p.mu.Unlock()
	if before != now {
		p.report(ctx, i, func(*v1.ContainerStatus) {})
	}
}

// report changes the status of one container and writes that of the pod. A write that
// fails is repeated with the next change, or by the probe.
func (p *pod) report(ctx context.Context, i int, change func(*v1.ContainerStatus)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.statuses[i]
	change(s)
	running := s.State.Running != nil
	s.Started, s.Ready = &running, running && p.probed[i]
	patch, err := json.Marshal(map[string]any{"status": p.status()})
	if err != nil {
		return // plain values: it cannot fail
	}
	if _, err := p.node.client.CoreV1().Pods(p.object.Namespace).Patch(ctx, p.object.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		p.probed[i] = false // asked and reported again
	}
}

// status is the pod's, from that of its containers.
func (p *pod) status() v1.PodStatus {
	ready := v1.ConditionTrue
	if slices.ContainsFunc(p.statuses, func(s v1.ContainerStatus) bool { return !s.Ready }) {
		ready = v1.ConditionFalse
	}
	now := metav1.Now()
	status := v1.PodStatus{
		Phase: v1.PodRunning, PodIP: p.address, PodIPs: []v1.PodIP{{IP: p.address}}, HostIP: "127.0.0.1", HostIPs: []v1.HostIP{{IP: "127.0.0.1"}},
		ContainerStatuses: p.statuses,
	}
	for _, kind := range []v1.PodConditionType{v1.ContainersReady, v1.PodReady} {
		status.Conditions = append(status.Conditions, v1.PodCondition{Type: kind, Status: ready, LastTransitionTime: now})
	}
	return status
}

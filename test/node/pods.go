package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/test/node/view"
)

const podLimit = time.Minute

// Pod is a pod of one container, called main, that looks around and sleeps. Without a
// change it is bound to this node.
func (n *Node) Pod(name string, limits map[string]int64, change ...func(*v1.Pod)) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault, Annotations: map[string]string{}, Labels: map[string]string{}},
		Spec: v1.PodSpec{
			NodeName:           n.Name,
			Containers:         []v1.Container{Container("main", limits, "look", "sleep")},
			EnableServiceLinks: new(bool),
			RestartPolicy:      v1.RestartPolicyNever,
		},
	}
	for _, c := range change {
		c(pod)
	}
	return pod
}

// Container is one that runs the inspect program.
func Container(name string, limits map[string]int64, args ...string) v1.Container {
	list := v1.ResourceList{}
	for key, value := range limits {
		list[v1.ResourceName(key)] = *resource.NewQuantity(value, resource.DecimalSI)
	}
	return v1.Container{
		Name: name, Image: Image, ImagePullPolicy: v1.PullNever, Args: args,
		Resources: v1.ResourceRequirements{Limits: list},
	}
}

// Create creates pods.
func (n *Node) Create(pods ...*v1.Pod) {
	n.t.Helper()
	for _, p := range pods {
		if _, err := n.client.CoreV1().Pods(p.Namespace).Create(context.Background(), p, metav1.CreateOptions{}); err != nil {
			n.t.Fatal(err)
		}
	}
}

// Get reads a pod.
func (n *Node) Get(name string) *v1.Pod {
	n.t.Helper()
	pod, err := n.client.CoreV1().Pods(metav1.NamespaceDefault).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		n.t.Fatal(err)
	}
	return pod
}

// Delete deletes pods and waits until kubelet has ended them.
func (n *Node) Delete(names ...string) {
	n.t.Helper()
	pods := n.client.CoreV1().Pods(metav1.NamespaceDefault)
	grace := int64(1) // inspect ends when it is told to
	for _, name := range names {
		if err := pods.Delete(context.Background(), name, metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil && !apierrors.IsNotFound(err) {
			n.t.Fatal(err)
		}
	}
	for _, name := range names {
		eventually(n.t, podLimit, "pod "+name+" is gone", func(ctx context.Context) error {
			pod, err := pods.Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err != nil {
				return err
			}
			return errors.New(describe(pod))
		})
	}
}

// AwaitPod waits until the pod is as wanted, and returns it.
func (n *Node) AwaitPod(name, what string, ok func(*v1.Pod) bool) *v1.Pod {
	n.t.Helper()
	var last *v1.Pod
	eventually(n.t, podLimit, "pod "+name+" "+what, func(ctx context.Context) error {
		pod, err := n.client.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if last = pod; !ok(pod) {
			return errors.New(describe(pod) + n.events(ctx, name))
		}
		return nil
	})
	return last
}

// AwaitRunning waits until all containers of the pod run.
func (n *Node) AwaitRunning(name string) *v1.Pod {
	n.t.Helper()
	return n.AwaitPod(name, "runs", func(p *v1.Pod) bool {
		if p.Status.Phase == v1.PodFailed {
			n.t.Fatalf("pod %s is to run: %s", name, describe(p)) // it never will
		}
		for _, c := range p.Status.ContainerStatuses {
			if c.State.Running == nil {
				return false
			}
		}
		return p.Status.Phase == v1.PodRunning
	})
}

// AwaitFailed waits until kubelet refused the pod or it failed.
func (n *Node) AwaitFailed(name string) *v1.Pod {
	n.t.Helper()
	return n.AwaitPod(name, "failed", func(p *v1.Pod) bool { return p.Status.Phase == v1.PodFailed })
}

// Kill kills a container's process, as if it crashed.
func (n *Node) Kill(pod *v1.Pod, container string) {
	n.t.Helper()
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name != container {
			continue
		}
		_, id, _ := strings.Cut(c.ContainerID, "://")
		cmd := exec.Command(filepath.Join(n.machine.bin, "ctr"), "--address="+n.containerdSocket(), "--namespace=k8s.io",
			"tasks", "kill", "--signal=SIGKILL", id)
		if out, err := cmd.CombinedOutput(); err != nil {
			n.t.Fatalf("kill %s of %s: %v: %s", container, pod.Name, err, out)
		}
		return
	}
	n.t.Fatalf("pod %s has no container %s", pod.Name, container)
}

// Waiting is the reason and the message of a container that does not start.
func Waiting(pod *v1.Pod, container string) (reason, message string) {
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name == container && c.State.Waiting != nil {
			return c.State.Waiting.Reason, c.State.Waiting.Message
		}
	}
	return "", ""
}

// Look waits until a pod runs and returns what its container main saw.
func (n *Node) Look(name string) *view.View {
	n.t.Helper()
	return n.LookInto(n.AwaitRunning(name), "main")
}

// LookInto returns what a container saw when it looked last.
func (n *Node) LookInto(pod *v1.Pod, container string) *view.View {
	n.t.Helper()
	var seen *view.View
	// Kubelet says that a container runs before it has printed anything.
	eventually(n.t, podLimit, fmt.Sprintf("container %s of pod %s printed what it sees", container, pod.Name), func(context.Context) error {
		text, err := n.Output(pod, container)
		if err != nil {
			return err
		}
		lines := strings.Split(strings.TrimSpace(text), "\n")
		v := &view.View{}
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), v); err != nil {
			return fmt.Errorf("%w: %s", err, text)
		}
		seen = v
		return nil
	})
	return seen
}

// Output is what the newest run of a container has printed so far.
func (n *Node) Output(pod *v1.Pod, container string) (string, error) {
	folder := n.path("log", "pods", fmt.Sprintf("%s_%s_%s", pod.Namespace, pod.Name, pod.UID), container)
	logs, err := filepath.Glob(filepath.Join(folder, "*.log"))
	if err != nil || len(logs) == 0 {
		return "", errors.Join(err, fmt.Errorf("no log in %s", folder))
	}
	sort.Slice(logs, func(i, j int) bool { return run(logs[i]) < run(logs[j]) })
	data, err := os.ReadFile(logs[len(logs)-1])
	if err != nil {
		return "", err
	}
	return plain(string(data)), nil
}

// run is the number of the run that a log file is named after.
func run(log string) int {
	number, _ := strconv.Atoi(strings.TrimSuffix(filepath.Base(log), ".log"))
	return number
}

// plain takes off what the runtime writes before each line: time, stream, and F for a
// full line or P for a part of one.
func plain(log string) string {
	var out strings.Builder
	for line := range strings.Lines(log) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
		if len(fields) < 4 {
			continue
		}
		out.WriteString(fields[3])
		if fields[2] == "F" {
			out.WriteByte('\n')
		}
	}
	return out.String()
}

// describe is a pod's state in one line.
func describe(p *v1.Pod) string {
	text := fmt.Sprintf("phase %s %s %s", p.Status.Phase, p.Status.Reason, p.Status.Message)
	for _, c := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
		switch {
		case c.State.Waiting != nil:
			text += fmt.Sprintf("; %s waits: %s %s", c.Name, c.State.Waiting.Reason, c.State.Waiting.Message)
		case c.State.Terminated != nil:
			text += fmt.Sprintf("; %s ended with %d %s %s", c.Name, c.State.Terminated.ExitCode, c.State.Terminated.Reason, c.State.Terminated.Message)
		default:
			text += "; " + c.Name + " runs"
		}
	}
	return text
}

// events are the events of a pod, for messages.
func (n *Node) events(ctx context.Context, pod string) string {
	list, err := n.client.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod})
	if err != nil {
		return ""
	}
	var text strings.Builder
	for _, e := range list.Items {
		fmt.Fprintf(&text, "\n  %s: %s", e.Reason, e.Message)
	}
	return text.String()
}

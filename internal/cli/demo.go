package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/examples"
)

const (
	demoNamespace = "ml-team"
	demoPods      = 7 // a Job's, three replicas', three plain ones
	demoPatience  = 30 * time.Second
)

// runDemo submits the sample workloads and shows where each pod went.
func (s *session) runDemo(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(s.cluster.RESTConfig())
	if err != nil {
		return err
	}
	for i, manifest := range examples.Demo() {
		if err := s.cluster.ApplyManifests(ctx, manifest); err != nil {
			return err
		}
		if i > 0 {
			continue
		}
		// The namespace takes no pods until its service account is there.
		err := poll(ctx, func(ctx context.Context) (bool, error) {
			_, err := client.CoreV1().ServiceAccounts(demoNamespace).Get(ctx, "default", metav1.GetOptions{})
			return err == nil, nil //nolint:nilerr // asked again until the time is over
		})
		if err != nil {
			return fmt.Errorf("wait for the service account of namespace %s: %w", demoNamespace, err)
		}
	}
	var pods []v1.Pod
	err = poll(ctx, func(ctx context.Context) (bool, error) {
		list, err := client.CoreV1().Pods(demoNamespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		pods = list.Items
		return len(pods) >= demoPods && !slices.ContainsFunc(pods, isUndecided), nil
	})
	if err != nil && !wait.Interrupted(err) {
		return err
	}
	s.say("\nSample workloads (namespace %s, manifests in examples/demo):\n", demoNamespace)
	if err := printPods(s.out, pods); err != nil {
		return err
	}
	if err != nil {
		s.say("\nnot everything was decided within %v; see the logs", demoPatience)
	}
	return ctx.Err()
}

func poll(ctx context.Context, f func(context.Context) (bool, error)) error {
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, demoPatience, true, f)
}

// isUndecided says that the pod neither runs nor was found impossible to place.
func isUndecided(p v1.Pod) bool {
	return p.Status.Phase == v1.PodPending && whyPending(p) == ""
}

// whyPending is the scheduler's reason, in its own words.
func whyPending(p v1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

func printPods(out io.Writer, pods []v1.Pod) error {
	slices.SortFunc(pods, func(a, b v1.Pod) int { return strings.Compare(a.Name, b.Name) })
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "POD\tSCHEDULER\tASKS FOR\tSTATUS\tNODE\tDEVICES")
	for _, p := range pods {
		node := p.Spec.NodeName
		if node == "" {
			node = "-"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", p.Name, p.Spec.SchedulerName, asked(p), p.Status.Phase, node, devices(p))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return printReasons(out, pods)
}

// printReasons says why pods wait, each reason once.
func printReasons(out io.Writer, pods []v1.Pod) error {
	var reasons []string
	waiting := map[string][]string{}
	for _, p := range pods {
		why := whyPending(p)
		if why == "" {
			continue
		}
		if waiting[why] == nil {
			reasons = append(reasons, why)
		}
		waiting[why] = append(waiting[why], p.Name)
	}
	for _, why := range reasons {
		verb := "wait"
		if len(waiting[why]) == 1 {
			verb = "waits"
		}
		if _, err := fmt.Fprintf(out, "\n%s %s: %s\n", strings.Join(waiting[why], ", "), verb, why); err != nil {
			return err
		}
	}
	return nil
}

// asked sums up the pod's GPU requests: "4 nvidia.com/gpu".
func asked(p v1.Pod) string {
	var parts []string
	for _, name := range []v1.ResourceName{names.ResourceNVIDIA, names.ResourceAMD, names.ResourceIntel} {
		var sum int64
		for _, c := range p.Spec.Containers {
			sum += c.Resources.Requests.Name(name, "").Value()
		}
		if sum > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", sum, name))
		}
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}

// devices shows the record: the indexes of the devices, container by container.
// A record this program does not understand is shown as it is.
func devices(p v1.Pod) string {
	text := p.Annotations[names.AnnotationDevices]
	if text == "" {
		return "-"
	}
	r, err := record.Decode(text)
	if err != nil {
		return text
	}
	var parts []string
	for _, c := range r.Containers {
		var indexes []string
		for _, d := range c.Devices {
			indexes = append(indexes, fmt.Sprint(d.Index))
		}
		parts = append(parts, c.Name+": "+strings.Join(indexes, ","))
	}
	return strings.Join(parts, "; ")
}

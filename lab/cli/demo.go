package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/examples"
)

const (
	demoNamespace = "ml-team"
	demoPatience  = 30 * time.Second // of one step
)

// demo tells a story: each manifest of examples/demo is a step, and its first line says what
// it shows.
type demo struct {
	client kubernetes.Interface
	out    io.Writer
	// wanted is how many pods the workloads applied so far have, by kind and name.
	wanted map[string]int
	// shown is what was last said of a pod; evicted are those of which that was said.
	shown   map[types.UID]string
	evicted map[types.UID]bool
}

// runDemo submits the sample workloads, one after the other, and shows where the pods of
// each went.
func (s *session) runDemo(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(s.cluster.RESTConfig())
	if err != nil {
		return err
	}
	d := &demo{client: client, out: s.out, wanted: map[string]int{}, shown: map[types.UID]string{}, evicted: map[types.UID]bool{}}
	s.say("\nA demo in steps (namespace %s, manifests in examples/demo):", demoNamespace)
	for i, manifest := range examples.Demo() {
		if err := s.cluster.ApplyManifests(ctx, manifest); err != nil {
			return err
		}
		if i == 0 {
			if err := d.namespaceReady(ctx); err != nil {
				return err
			}
			continue
		}
		if err := d.count(manifest); err != nil {
			return err
		}
		s.say("\n%d. %s", i, title(manifest))
		if err := d.step(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// namespaceReady waits for the namespace's service account, without which it takes no pods.
func (d *demo) namespaceReady(ctx context.Context) error {
	err := poll(ctx, func(ctx context.Context) (bool, error) {
		_, err := d.client.CoreV1().ServiceAccounts(demoNamespace).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil // asked again until the time is over
	})
	if err != nil {
		return fmt.Errorf("wait for the service account of namespace %s: %w", demoNamespace, err)
	}
	return nil
}

// step waits until every pod runs or was found impossible to place, and says what is new.
func (d *demo) step(ctx context.Context) error {
	total := 0
	for _, n := range d.wanted {
		total += n
	}
	var pods []v1.Pod
	err := poll(ctx, func(ctx context.Context) (bool, error) {
		list, err := d.client.CoreV1().Pods(demoNamespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		pods = list.Items
		return len(pods) >= total && !slices.ContainsFunc(pods, isUndecided), nil
	})
	if err != nil && !wait.Interrupted(err) {
		return err
	}
	if err := d.sayEvicted(ctx); err != nil {
		return err
	}
	if err := d.sayPods(pods); err != nil {
		return err
	}
	if err != nil {
		_, err = fmt.Fprintf(d.out, "   not everything was decided within %v; see the logs\n", demoPatience)
	}
	return err
}

// sayEvicted says which pods had to leave since the last step, and why.
func (d *demo) sayEvicted(ctx context.Context) error {
	list, err := d.client.EventsV1().Events(demoNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	slices.SortFunc(list.Items, func(a, b eventsv1.Event) int { return strings.Compare(a.Regarding.Name, b.Regarding.Name) })
	for _, e := range list.Items {
		if e.Reason != "Preempted" || d.evicted[e.Regarding.UID] {
			continue
		}
		d.evicted[e.Regarding.UID] = true
		if _, err := fmt.Fprintf(d.out, "   %s: %s\n", e.Regarding.Name, e.Note); err != nil {
			return err
		}
	}
	return nil
}

// sayPods prints the pods of which something new is to be said: a table of those that run,
// and why others wait, each reason once.
func (d *demo) sayPods(pods []v1.Pod) error {
	slices.SortFunc(pods, func(a, b v1.Pod) int { return strings.Compare(a.Name, b.Name) })
	table := tabwriter.NewWriter(d.out, 0, 0, 3, ' ', 0)
	var reasons []string
	waiting := map[string][]string{}
	for _, p := range pods {
		line := fmt.Sprintf("   %s\t%s\t%s\t%s", p.Name, asked(p), cmp.Or(p.Spec.NodeName, "-"), devices(p))
		why := whyPending(p)
		if d.shown[p.UID] == line+why {
			continue
		}
		d.shown[p.UID] = line + why
		if why == "" {
			fmt.Fprintln(table, line)
			continue
		}
		if waiting[why] == nil {
			reasons = append(reasons, why)
		}
		waiting[why] = append(waiting[why], p.Name)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, why := range reasons {
		verb := "wait"
		if len(waiting[why]) == 1 {
			verb = "waits"
		}
		if _, err := fmt.Fprintf(d.out, "   %s %s: %s\n", strings.Join(waiting[why], ", "), verb, why); err != nil {
			return err
		}
	}
	return nil
}

// title is the comment with which a manifest begins.
func title(manifest []byte) string {
	line, _, _ := bytes.Cut(manifest, []byte("\n"))
	return strings.TrimSpace(strings.TrimPrefix(string(line), "#"))
}

// count adds the pods of a manifest's workloads to those that are wanted.
func (d *demo) count(manifest []byte) error {
	for _, doc := range bytes.Split(manifest, []byte("\n---\n")) {
		var o struct {
			Kind     string
			Metadata metav1.ObjectMeta
			Spec     struct {
				Replicas, Parallelism int
				Tasks                 []struct{ Replicas int }
			}
		}
		if err := yaml.Unmarshal(doc, &o); err != nil {
			return err
		}
		n := max(1, o.Spec.Replicas, o.Spec.Parallelism)
		if len(o.Spec.Tasks) > 0 {
			n = 0
		}
		for _, t := range o.Spec.Tasks {
			n += t.Replicas
		}
		d.wanted[o.Kind+"/"+o.Metadata.Name] = n
	}
	return nil
}

func poll(ctx context.Context, f func(context.Context) (bool, error)) error {
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, demoPatience, true, f)
}

// isUndecided says that the pod neither runs nor was found impossible to place: it may be
// new, or wait for others to leave.
func isUndecided(p v1.Pod) bool {
	if p.DeletionTimestamp != nil {
		return true
	}
	if p.Status.Phase != v1.PodPending {
		return false
	}
	return !slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Reason == v1.PodReasonUnschedulable
	})
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

// asked sums up the pod's requests of devices: "4 nvidia.com/gpu".
func asked(p v1.Pod) string {
	sums := map[string]int64{}
	for _, c := range p.Spec.Containers {
		for name, amount := range c.Resources.Requests {
			if strings.Contains(string(name), "/") {
				sums[string(name)] += amount.Value()
			}
		}
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		parts = append(parts, fmt.Sprintf("%d %s", sums[name], name))
	}
	return cmp.Or(strings.Join(parts, ", "), "-")
}

// devices shows the record: what each container was given, as "devices 0,1" or "1g.10gb of
// device 3". A record this program does not understand is shown as it is.
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
		slice := ""
		for _, d := range c.Devices {
			indexes = append(indexes, fmt.Sprint(d.Index))
			slice = d.MIG
		}
		what := "device"
		if len(indexes) > 1 {
			what = "devices"
		}
		what += " " + strings.Join(indexes, ",")
		if slice != "" {
			what = slice + " of " + what
		}
		if len(r.Containers) > 1 {
			what = c.Name + ": " + what
		}
		parts = append(parts, what)
	}
	return strings.Join(parts, "; ")
}

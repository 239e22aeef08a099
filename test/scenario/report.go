package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// podLine says where a pod is, in words that all engines can know.
func podLine(pod *v1.Pod) string {
	c := scheduled(pod)
	switch {
	case ended(pod):
		return pod.Name + " ended"
	case pod.Spec.NodeName != "" && pod.DeletionTimestamp != nil:
		return fmt.Sprintf("%s -> %s %s, terminating", pod.Name, pod.Spec.NodeName, holdings(pod))
	case pod.Spec.NodeName != "":
		return strings.TrimSpace(fmt.Sprintf("%s -> %s %s", pod.Name, pod.Spec.NodeName, holdings(pod)))
	case c != nil && c.Status == v1.ConditionFalse:
		text := timeOfDay.ReplaceAllString(reason(c.Message), "TIME")
		if strings.HasPrefix(text, "waits ") {
			return pod.Name + " " + text
		}
		return pod.Name + " waits: " + text
	}
	return pod.Name + " waits: not looked at yet"
}

// timeOfDay is a time in a reason: no two runs have the same.
var timeOfDay = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d UTC`)

// holdings are the devices a bound pod holds, by index where its record proves
// them; nothing for a pod without GPUs.
func holdings(pod *v1.Pod) string {
	var out []string
	for _, c := range claimsOf(pod) {
		if c.Vendor == "" {
			continue // holds no device
		}
		indexes := recorded(c)
		switch {
		case indexes == nil:
			out = append(out, fmt.Sprintf("(%d unrecorded)", c.Count+len(c.Parts)))
		case len(c.Parts) > 0:
			out = append(out, fmt.Sprintf("parts of %v", indexes))
		default:
			out = append(out, fmt.Sprint(indexes))
		}
	}
	return strings.Join(out, " ")
}

// recorded are the devices a claim names, whole or in part, sorted; nil when it
// names none.
func recorded(c ledger.Claim) []int {
	var out []int
	for _, d := range c.Devices {
		out = append(out, d.Index)
	}
	for _, p := range c.Parts {
		if p.Known {
			out = append(out, p.Device.Index)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// What kube-scheduler says around a plugin's message. It counts nodes in front
// ("0/3 nodes are available: "), ends the message with a full stop, and appends
// what its PostFilter plugins found (dynamic resources, then preemption), none of
// which a core without them can know.
var (
	wrapper    = regexp.MustCompile(`^0/\d+ nodes are available: `)
	postFilter = regexp.MustCompile(`\. (no new claims to deallocate|preemption: ).*$`)
)

// noNodes is kube-scheduler's own word for an empty cluster, for which it asks no
// plugin; emptyCluster is core's.
const (
	noNodes      = "no nodes available to schedule pods"
	emptyCluster = "the cluster has no nodes"
)

// reason strips a PodScheduled condition's message down to the reason itself.
func reason(message string) string {
	if message == noNodes {
		return emptyCluster
	}
	if !wrapper.MatchString(message) {
		return message
	}
	message = wrapper.ReplaceAllString(message, "")
	message = postFilter.ReplaceAllString(message, ".")
	return strings.TrimSuffix(message, ".")
}

func (w Warning) String() string {
	return fmt.Sprintf("warning on %s %s: %s: %s", w.Kind, w.Name, w.Reason, w.Note)
}

// deviceTable says, node by node, which pod holds which device. What pods hold without
// a valid record is shown together: it is not known which of them has which.
func (s *State) deviceTable() (string, error) {
	l, err := s.Ledger()
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.Nodes)) {
		view, ok := l.View(model.NodeID(name))
		if !ok {
			return "", fmt.Errorf("node %s is not in the ledger", name)
		}
		var held []holding
		var parts, unrecorded []string
		var presumed model.Mask
		for _, pod := range slices.Sorted(maps.Keys(s.Pods)) {
			for _, h := range dialect.Holders(s.Pods[pod]) {
				node, set := l.Held(h)
				if node != model.NodeID(name) {
					continue
				}
				_, claim, _ := l.Claim(h)
				switch indexes := recorded(claim); {
				case claim.Vendor == "": // it holds no device
				case indexes == nil:
					unrecorded = append(unrecorded, pod)
					presumed |= set
				case len(claim.Parts) > 0:
					held = append(held, holding{indexes[0], fmt.Sprintf("%s parts of %v", pod, indexes)})
				default: // what the ledger believes, which may not be what the record says
					indexes = indexesOf(view.Node, set)
					held = append(held, holding{slices.Min(append(indexes, model.MaxDevices)), fmt.Sprintf("%s %v", pod, indexes)})
				}
			}
		}
		slices.SortStableFunc(held, func(a, b holding) int { return cmp.Compare(a.lowest, b.lowest) })
		for _, h := range held {
			parts = append(parts, h.text)
		}
		if len(unrecorded) > 0 {
			parts = append(parts, "unrecorded "+strings.Join(slices.Compact(unrecorded), " ")+" "+fmt.Sprint(indexesOf(view.Node, presumed)))
		}
		all := model.FullMask(len(view.Node.Devices))
		if broken := all &^ healthy(view.Node); broken != 0 {
			parts = append(parts, fmt.Sprintf("unhealthy %v", indexesOf(view.Node, broken)))
		}
		if free := healthy(view.Node) &^ view.Held; free != 0 {
			parts = append(parts, fmt.Sprintf("free %v", indexesOf(view.Node, free)))
		}
		if len(parts) == 0 {
			parts = []string{"no GPUs"}
		}
		fmt.Fprintf(&out, "%s: %s\n", name, strings.Join(parts, ", "))
	}
	return out.String(), nil
}

// holding is one pod's part of a node, to be listed by its lowest device.
type holding struct {
	lowest int
	text   string
}

func healthy(n *model.Node) model.Mask {
	var out model.Mask
	for slot, d := range n.Devices {
		if d.Health == model.Healthy {
			out = out.With(slot)
		}
	}
	return out
}

func indexesOf(n *model.Node, set model.Mask) []int {
	var out []int
	for slot := range set.Slots() {
		out = append(out, n.Devices[slot].Index)
	}
	return out
}

// recordTable says which devices each container of each pod was given.
func (s *State) recordTable(order []string) (string, error) {
	var out strings.Builder
	for _, name := range order {
		pod := s.Pods[name]
		if pod == nil || pod.Annotations[names.AnnotationDevices] == "" {
			continue
		}
		rec, err := record.Decode(pod.Annotations[names.AnnotationDevices])
		if err != nil {
			fmt.Fprintf(&out, "%s: %v\n", name, err)
			continue
		}
		var parts []string
		for _, c := range rec.Containers {
			var indexes []string
			for _, d := range c.Devices {
				text := fmt.Sprint(d.Index)
				if d.MIG != "" {
					text = fmt.Sprintf("%d:%s@%d", d.Index, d.MIG, d.Start)
				}
				indexes = append(indexes, text)
			}
			parts = append(parts, fmt.Sprintf("%s %v", c.Name, indexes))
		}
		fmt.Fprintf(&out, "%s: %s\n", name, strings.Join(parts, ", "))
	}
	return out.String(), nil
}

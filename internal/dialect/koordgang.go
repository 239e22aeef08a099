package dialect

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// KoordGroups are the PodGroups that Koordinator took over from scheduler-plugins.
var KoordGroups = schema.GroupVersionResource{Group: "scheduling.sigs.k8s.io", Version: "v1alpha1", Resource: "podgroups"}

// Koordinator's words for gangs: annotations of a pod, labels of the lightweight form, and that of a PodGroup.
const (
	koordGang    = "gang.scheduling.koordinator.sh/name"
	koordMin     = "gang.scheduling.koordinator.sh/min-available"
	koordTotal   = "gang.scheduling.koordinator.sh/total-number"
	koordMode    = "gang.scheduling.koordinator.sh/mode"
	koordWait    = "gang.scheduling.koordinator.sh/waiting-time"
	koordGangs   = "gang.scheduling.koordinator.sh/groups"
	koordNetwork = "gang.scheduling.koordinator.sh/network-topology-spec"

	koordGroupLabel = "pod-group.scheduling.sigs.k8s.io"
	koordLightName  = "pod-group.scheduling.sigs.k8s.io/name"
	koordLightMin   = "pod-group.scheduling.sigs.k8s.io/min-available"
)

const noNetworkSpec = "not supported; tangram.dev/topology: required=LEVEL or preferred=LEVEL says the same"

var koordGroups = OwnerKind{
	Kind: "PodGroup", Resource: KoordGroups, Label: koordGroupLabel, group: true, field: label(koordGroupLabel), size: groupSize,
	find: labelledWith(koordGroupLabel, "koordgroup/"),
}

// isKoordGang says whether a pod's own annotations or labels put it into a gang in Koordinator's words.
func isKoordGang(pod *v1.Pod) bool {
	return pod.Annotations[koordGang] != "" || pod.Labels[koordLightName] != ""
}

// koordGang reads that gang. Bundled gangs start together: here they are one gang, and each a task with its minimum.
func (m *Membership) koordGang(pod *v1.Pod) error {
	name, least, field := pod.Annotations[koordGang], pod.Annotations[koordMin], annotation(koordMin)
	if name == "" {
		name, least, field = pod.Labels[koordLightName], pod.Labels[koordLightMin], label(koordLightMin)
	}
	n, err := wholeNumber(least, field, maxGang)
	if err != nil {
		return err
	}
	if text, ok := pod.Annotations[koordTotal]; ok {
		if total, err := strconv.Atoi(text); err != nil || total < n || total > maxGang {
			return fmt.Errorf("%s: %q is not a number from %d, the minimum, to %d", annotation(koordTotal), text, n, maxGang)
		}
	}
	if text, ok := pod.Annotations[koordMode]; ok && text != "Strict" && text != "NonStrict" {
		return fmt.Errorf("%s: %q is not Strict or NonStrict", annotation(koordMode), text)
	}
	if _, err := duration(pod, koordWait); err != nil {
		return err
	}
	if err := refuse(pod.Annotations, koordNetwork); err != nil {
		return err
	}
	m.Key, m.Size = "koord/"+pod.Namespace+"/"+name, n
	gangs, err := koordBundle(pod, name)
	if err != nil || len(gangs) < 2 {
		return err
	}
	m.Key = "koord/" + pod.Namespace + "/" + strings.Join(gangs, "+")
	m.Size, m.Task, m.TaskMin, m.Tasks = 0, name, n, strings.Join(gangs, ",")
	return nil
}

// koordBundle are the gangs that start together with a pod's own, sorted; all of them in
// the pod's namespace: a pod does not decide about pods of another one.
func koordBundle(pod *v1.Pod, own string) ([]string, error) {
	text, ok := pod.Annotations[koordGangs]
	if !ok || text == "" {
		return nil, nil
	}
	var list []string
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("%s: %w", annotation(koordGangs), err)
	}
	if len(list) > maxWords {
		return nil, fmt.Errorf("%s: more than %d gangs", annotation(koordGangs), maxWords)
	}
	var out []string
	for _, entry := range list {
		namespace, name, ok := strings.Cut(entry, "/")
		if !ok || len(validation.IsDNS1123Subdomain(name)) > 0 || namespace != pod.Namespace {
			return nil, fmt.Errorf("%s: %q is not namespace/name of a gang in namespace %s", annotation(koordGangs), entry, pod.Namespace)
		}
		out = append(out, name)
	}
	slices.Sort(out)
	out = slices.Compact(out)
	if !slices.Contains(out, own) {
		return nil, fmt.Errorf("%s: does not list the pod's own gang %s/%s", annotation(koordGangs), pod.Namespace, own)
	}
	return out, nil
}

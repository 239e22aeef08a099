package why

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	apiquery "github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/test/cluster"
)

// situation is one way in which something waits.
type situation struct {
	// name is also the namespace's.
	name, pool, scheduler string
	// labels are the namespace's, annotations too.
	labels, annotations map[string]string
	// make brings it about; kind and object are what is asked about (object: "waits").
	make         func(p *place)
	kind, object string
	// code is the answer's, or several with "|"; node a code among its causes of nodes.
	code, node string
	never      bool
	// says are parts of the text, helps of the helps; start is how the start is known.
	says, helps []string
	start       string
	// cure does what is said to help; then the pods must start. run: the command of the help
	// with these words is run.
	run    string
	cure   func(p *place, w *apiquery.Why)
	starts []string
}

func (s *situation) asked() string {
	if s.object == "" {
		return "waits"
	}
	return s.object
}

// wrong says what an answer lacks.
func (s *situation) wrong(w *apiquery.Why) string {
	switch {
	case !slices.Contains(strings.Split(s.code, "|"), w.Reason.Code):
		return "code is " + w.Reason.Code
	case s.never != w.Reason.Never:
		return fmt.Sprintf("never is %v", w.Reason.Never)
	case s.node != "" && !slices.ContainsFunc(w.Reason.Nodes, func(c apiquery.NodesCause) bool { return c.Code == s.node }):
		return "no node refuses for " + s.node
	case len(w.Helps) == 0:
		return "nothing helps"
	case s.start != "" && w.Start.Known != s.start:
		return "start is " + w.Start.Known
	}
	for _, part := range s.says {
		if !strings.Contains(w.Text, part) {
			return fmt.Sprintf("the text lacks %q", part)
		}
	}
	all := ""
	for _, h := range w.Helps {
		all += h.Who + ": " + h.Text + " [" + h.Command + "]\n"
	}
	for _, part := range s.helps {
		if !strings.Contains(all, part) {
			return fmt.Sprintf("the helps lack %q", part)
		}
	}
	return ""
}

// command is the command of the help with some words.
func command(t *testing.T, w *apiquery.Why, words string) string {
	t.Helper()
	for _, h := range w.Helps {
		if strings.Contains(h.Text, words) && h.Command != "" {
			return h.Command
		}
	}
	t.Fatalf("no help says %q with a command: %+v", words, w.Helps)
	return ""
}

// TestSituations: each is told by its cause, with numbers and with something that helps.
func TestSituations(t *testing.T) {
	w := sharedWorld(t)
	all := append(append(capacity(), limits()...), append(owners(), turns()...)...)
	seen := map[string]bool{}
	for _, s := range all {
		if seen[s.name] {
			t.Fatalf("%s is there twice", s.name)
		}
		seen[s.name] = true
	}
	if len(all) < 30 {
		t.Fatalf("%d situations", len(all))
	}
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			p := w.in(t, s.name, s.pool, s.scheduler)
			ns := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.name, Labels: s.labels, Annotations: s.annotations}}
			_, err := w.Client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{})
			p.Must(err)
			s.make(p)
			var answer *apiquery.Why
			p.Eventually("the right answer", func() (bool, string) {
				answer = p.why(s.kind, s.asked())
				problem := s.wrong(answer)
				return problem == "", fmt.Sprintf("%s; %q, helps %+v, start %+v", problem, answer.Text, answer.Helps, answer.Start)
			})
			t.Log(answer.Text)
			for _, h := range answer.Helps {
				t.Logf("  %s: %s  %s", h.Who, h.Text, h.Command)
			}
			if s.run != "" {
				p.run(command(t, answer, s.run))
			}
			if s.cure != nil {
				s.cure(p, answer)
			}
			if len(s.starts) > 0 {
				p.Bound(s.starts...)
				p.Eventually("it is told to run", func() (bool, string) {
					now := p.why("", s.starts[0])
					return now.Reason.Code == "" && now.Start.Known == apiquery.StartsNow, now.Text
				})
			}
		})
	}
}

// capacity are situations that nodes are the cause of.
func capacity() []situation {
	waits := func(gpus int, changes ...cluster.Change) func(*place) {
		return func(p *place) { p.pod("waits", gpus, changes...) }
	}
	return []situation{
		{
			name: "taken", pool: "taken", code: "Nodes", node: "Taken", says: []string{"1 has too few free GPUs (1 of 2)"},
			helps: []string{"time: It starts when 2 GPUs of one node are free, 1 more than now", "owner: Ask for at most 1 GPU per pod"}, start: apiquery.StartsUnknown,
			make: func(p *place) {
				p.pod("holder", 3)
				p.Bound("holder")
				p.pod("waits", 2)
			},
			cure: func(p *place, _ *apiquery.Why) { p.pod("smaller", 1) }, starts: []string{"smaller"},
		}, {
			name: "partial", pool: "part", code: "Nodes", node: "Taken", says: []string{"needs 4 members, 3 can be placed"},
			helps: []string{"Lower the gang's minimum from 4 to 3"}, never: true, start: apiquery.StartsNever,
			make: func(p *place) { p.gang("g", 0, 4, 4, 1) }, kind: "Gang", object: "g",
			cure: func(p *place, _ *apiquery.Why) {
				for i := range 4 {
					p.Delete(fmt.Sprint("g-", i))
				}
				p.gang("h", 0, 3, 3, 1)
			}, starts: []string{"h-0", "h-1", "h-2"},
		}, {
			name: "too-few", code: "Nodes", node: "TooFew", never: true, says: []string{"can never fit", "too few GPUs in all (8 of 16)"},
			helps: []string{"owner: Ask for at most 8 GPUs per pod", "Add a node with at least 16 GPUs"}, start: apiquery.StartsNever, make: waits(16),
		}, {
			name: "model", code: "Nodes", node: "WrongModel", never: true, says: []string{"h200", "(0 of 1)"}, helps: []string{"owner: Allow other models than", "Add a node with 1 GPU of model"},
			make: waits(1, model("H200")),
		}, {
			name: "selector", code: "Nodes", node: "Unselected", never: true, says: []string{"disk=ssd"}, helps: []string{"Give a node the label disk=ssd", "kubectl label node aaa-0 disk=ssd"},
			make: waits(1, cluster.On("disk", "ssd")), run: "Give a node the label", starts: []string{"waits"},
		}, {
			name: "taint", pool: "taint", code: "Nodes", node: "Tainted", says: []string{"1 has an untolerated taint keep=out:NoSchedule"}, helps: []string{"owner: Tolerate the taint keep=out:NoSchedule"},
			start: apiquery.StartsNever, make: waits(1), run: "Remove the taint", starts: []string{"waits"},
		}, {
			name: "cordon", pool: "cordon", code: "Nodes", node: "Cordoned", says: []string{"1 is cordoned"}, helps: []string{"kubectl uncordon cordon-0"},
			make: func(p *place) {
				p.run("kubectl cordon cordon-0")
				p.pod("waits", 1)
			}, run: "Uncordon", starts: []string{"waits"},
		}, {
			name: "isolated", pool: "isolated", code: "Nodes", node: "Isolated", says: []string{"1 is isolated by gpu-controller (NodeNotReady)"},
			helps: []string{"administrator: Repair a node: 1 node is isolated by gpu-controller (NodeNotReady), and put back into service by itself when kubelet reports it as ready again. [tangram diagnose isolated-0]"},
			make: func(p *place) { // as gpu-controller writes it
				p.run(`kubectl patch node isolated-0 --type=merge -p '{"spec":{"unschedulable":true,"taints":[{"key":"tangram.dev/isolated","value":"NodeNotReady","effect":"NoSchedule"}]}}'`)
				p.pod("waits", 1)
			},
			cure: func(p *place, _ *apiquery.Why) {
				p.run(`kubectl patch node isolated-0 --type=merge -p '{"spec":{"unschedulable":null,"taints":null}}'`)
			}, starts: []string{"waits"},
		}, {
			name: "no-rack", pool: "free", code: "Nodes", node: "WrongDomain", never: true, kind: "Gang", object: "g",
			says:  []string{"can never fit", "needs 2 members in one block, 0 can be placed; for the next: 0/", "have no block (label network.topology.nvidia.com/block)"},
			helps: []string{"administrator: Give nodes the label network.topology.nvidia.com/block, with the name of their block", "[kubectl get nodes -L network.topology.nvidia.com/block]", "owner: Do not require one block, only prefer it"}, start: apiquery.StartsNever,
			make: func(p *place) { p.gang("g", 0, 2, 2, 1, annotate(names.AnnotationTopology, "required=block")) },
		}, {
			name: "no-label", code: "Nodes", node: "Unselected", never: true, kind: "Gang", object: "g",
			says:  []string{"needs 2 members in one rack, 0 can be placed; for the next: 0/31 nodes fit: 8 do not match nodeSelector missing=here, 23 have no rack"},
			helps: []string{"owner: Change nodeSelector missing=here", "Give a node the label missing=here"}, start: apiquery.StartsNever,
			make: func(p *place) {
				p.gang("g", 0, 2, 2, 1, annotate(names.AnnotationTopology, "required=rack"), cluster.On("missing", "here"))
			},
		}, {
			name: "sick", pool: "sick", code: "Nodes", node: "Unhealthy", says: []string{"too few healthy GPUs (1 of 2)"}, helps: []string{"Repair GPUs of 1 node: 1 healthy on the best of them, 2 needed", "tangram diagnose sick-0"},
			make: func(p *place) {
				p.run(`kubectl patch gpunode sick-0 --subresource=status --type=merge -p '{"status":{"devices":[{"index":0,"health":"Failed","reason":"test"}]}}'`)
				p.pod("waits", 2)
			},
			cure: func(p *place, _ *apiquery.Why) {
				p.run(`kubectl patch gpunode sick-0 --subresource=status --type=merge -p '{"status":{"devices":[{"index":0,"health":"Healthy"}]}}'`)
			}, starts: []string{"waits"},
		}, {
			name: "devices-held", pool: "held", code: "Nodes", node: "DevicesCordoned", says: []string{"too few GPUs that are not cordoned (1 of 2)"}, helps: []string{"Take at least 1 GPU out of spec.cordoned", "kubectl edit gpunode held-0"},
			make: func(p *place) {
				p.run(`kubectl patch gpunode held-0 --type=merge -p '{"spec":{"cordoned":["1"]}}'`)
				p.pod("waits", 2)
			},
			cure: func(p *place, _ *apiquery.Why) {
				p.run(`kubectl patch gpunode held-0 --type=merge -p '{"spec":{"cordoned":[]}}'`)
			}, starts: []string{"waits"},
		}, {
			name: "links-never", pool: "links", code: "Nodes", node: "Apart", never: true, says: []string{"joined by NVLink (4 of 5)"}, helps: []string{"Ask for at most 4 GPUs per pod, or do not require GPUs joined by NVLink"},
			make: waits(5, annotate(names.AnnotationTopology, "required=nvlink")),
		}, {
			name: "links-free", pool: "links", code: "Nodes", node: "FreeApart", says: []string{"too few free GPUs joined by NVLink (3 of 4)"}, helps: []string{"It starts when 4 GPUs joined by NVLink are free on one node, 1 more than now"},
			make: func(p *place) {
				p.pod("a", 1, annotate(names.AnnotationUseIndex, "1"))
				p.pod("b", 1, annotate(names.AnnotationUseIndex, "5"))
				p.Bound("a", "b")
				p.pod("waits", 4, annotate(names.AnnotationTopology, "required=nvlink"))
			},
			cure: func(p *place, _ *apiquery.Why) { p.Delete("b") }, starts: []string{"waits"},
		}, {
			name: "domain", pool: "rack", code: "NoDomain|Nodes", says: []string{"rack"}, helps: []string{"owner: Prefer one rack instead of requiring it"}, kind: "Gang", object: "g",
			make: func(p *place) {
				for _, node := range []string{"rack-0", "rack-2"} {
					p.pod("on-"+node, 2, cluster.On(v1.LabelHostname, node))
					p.Bound("on-" + node)
				}
				p.gang("g", 0, 2, 2, 2, annotate(names.AnnotationTopology, "required=rack"))
			},
			cure: func(p *place, _ *apiquery.Why) {
				p.Delete("g-0")
				p.Delete("g-1")
				p.gang("h", 0, 2, 2, 2, annotate(names.AnnotationTopology, "preferred=rack"))
			}, starts: []string{"h-0", "h-1"},
		}, {
			name: "share", code: "Nodes", node: "TooSmall", never: true, says: []string{"200000 MiB"}, helps: []string{"owner: Ask for a smaller share or profile: 0 of 1 GPU needed could ever have 200000 MiB free"},
			make: waits(0, needs("nvidia.com/gpu", "1"), needs("nvidia.com/gpumem", "200000")),
		}, {
			name: "memory", code: "Nodes", node: "SmallMemory", never: true, says: []string{"204800 MiB"}, helps: []string{"Ask for at most 81920 MiB of memory per GPU"},
			make: waits(1, needs("nvidia.com/gpu-memory", "200Gi")),
		}, {
			name: "mig", pool: "mig", code: "Nodes", never: true, says: []string{"9g.99gb"}, helps: []string{"owner: "},
			make: waits(0, needs("nvidia.com/mig-9g.99gb", "1")),
		}, {
			name: "cpu-never", code: "Nodes", node: "SmallHost", never: true, says: []string{"500 CPUs", "96 CPUs"}, helps: []string{"Ask for at most 96 CPUs per pod", "at least 500 CPUs"},
			make: waits(1, needs("cpu", "500")),
		}, {
			name: "cpu", pool: "cpu", code: "Nodes", node: "BusyHost", says: []string{"needs 4 CPUs, at most 2 CPUs free"}, helps: []string{"4 CPUs free, 2 CPUs more than now", "Ask for at most 2 CPUs per pod"},
			make: func(p *place) {
				p.pod("holder", 1, needs("cpu", "6"))
				p.Bound("holder")
				p.pod("waits", 1, needs("cpu", "4"))
			},
			cure: func(p *place, _ *apiquery.Why) { p.pod("smaller", 1, needs("cpu", "2")) }, starts: []string{"smaller"},
		}, {
			name: "host-memory", code: "Nodes", node: "SmallHost", never: true, says: []string{"4096 GiB of memory", "768 GiB"}, helps: []string{"Ask for at most 768 GiB of memory per pod"},
			make: waits(1, needs("memory", "4Ti")),
		}, {
			name: "port", pool: "port", code: "Nodes", node: "Neighbor", says: []string{"host port 8080"}, helps: []string{"Remove the rule that keeps it off the nodes of other pods (host port 8080"},
			make: func(p *place) {
				port := func(pod *v1.Pod) {
					pod.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 8080, HostPort: 8080}}
				}
				p.pod("holder", 1, port)
				p.Bound("holder")
				p.pod("waits", 1, port)
			},
			cure: func(p *place, _ *apiquery.Why) { p.Delete("holder") }, starts: []string{"waits"},
		}, {
			name: "anti-affinity", pool: "port", code: "Nodes", node: "Neighbor", says: []string{"pod anti-affinity"}, helps: []string{"(pod anti-affinity)"},
			make: func(p *place) {
				p.pod("holder", 1, label("app", "x"))
				p.Bound("holder")
				p.pod("waits", 1, func(pod *v1.Pod) {
					pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
						TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}}}}}
				})
			},
		}, {
			name: "filtered", code: "Rejected|Nodes|BackOff", says: []string{"affinity"}, helps: []string{"hange what"},
			make: waits(1, func(pod *v1.Pod) {
				pod.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
					TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "none"}}}}}}
			}),
		}, {
			name: "pvc", code: "Rejected", says: []string{`"nope" not found`}, helps: []string{`Create or change what kube-scheduler names: `, "kubectl -n pvc get pvc"}, start: apiquery.StartsNever,
			make: waits(1, func(pod *v1.Pod) {
				pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: "d", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "nope"}}})
			}),
		}, {
			name: "priority", pool: "low", code: "Nodes|OverTotal", helps: []string{"Submit it with a priority above 500: it may then take the place of 1 running job that can be evicted"},
			make: func(p *place) {
				p.AddQueue("low", "{weight: 1}")
				p.pod("holder", 2, inQueue("low"), cluster.Priority("middle"))
				p.Bound("holder")
				p.pod("waits", 1, inQueue("low"))
			},
			cure: func(p *place, _ *apiquery.Why) {
				p.pod("higher", 2, inQueue("low"), cluster.Priority("high"))
				p.Eventually("the holder is evicted", func() (bool, string) {
					pod := p.Find("holder")
					return pod == nil || pod.DeletionTimestamp != nil, "it runs"
				})
			},
		}, {
			name: "victims", pool: "victims", code: "Nodes|OverTotal", says: []string{"pods are being evicted for it on node victims-0"}, helps: []string{"time: Pods are being evicted on 1 node for it"}, start: apiquery.StartsReserved,
			make: func(p *place) {
				p.pod("holder", 2)
				p.Bound("holder")
				p.pod("waits", 2, cluster.Priority("high"))
			},
			cure: func(p *place, _ *apiquery.Why) { p.Delete("holder") }, starts: []string{"waits"},
		}, {
			name: "never", pool: "part", code: "Nodes|NoDomain", never: true, says: []string{"can never fit", "needs 20 members, 3 can be placed"}, kind: "Gang", object: "g", helps: []string{"owner: "}, start: apiquery.StartsNever,
			make: func(p *place) { p.gang("g", 0, 20, 20, 1) },
		},
	}
}

// limits are situations that queues and quotas are the cause of.
func limits() []situation {
	return []situation{
		{
			name: "quota", pool: "quota", annotations: map[string]string{names.AnnotationQuota: "nvidia.com/gpu=2"}, code: "OverQuota",
			says: []string{"namespace quota may use 2 nvidia GPUs, 2 nvidia GPUs in use, needs 1 nvidia GPUs"}, helps: []string{"from 2 nvidia GPUs to 3 nvidia GPUs", "nvidia.com/gpu=3", "time: It starts when pods of the namespace end that use 1 nvidia GPUs"},
			make: func(p *place) {
				p.pod("holder", 2)
				p.Bound("holder")
				p.pod("waits", 1)
			},
			cure: func(p *place, _ *apiquery.Why) {
				p.run("kubectl annotate namespace quota tangram.dev/quota=nvidia.com/gpu=3 --overwrite")
			}, starts: []string{"waits"},
		}, {
			name: "quota-never", annotations: map[string]string{names.AnnotationQuota: "nvidia.com/gpu=2"}, code: "OverQuota", never: true, start: apiquery.StartsNever,
			says: []string{"can never start: namespace quota-never may use 2"}, helps: []string{"Ask for at most 2 nvidia GPUs in all"}, make: func(p *place) { p.pod("waits", 4) },
		}, {
			name: "capability", pool: "quota", code: "OverCapability", says: []string{"queue capped may use 2 nvidia GPUs, 2 nvidia GPUs in use, needs 1"}, helps: []string{"from 2 nvidia GPUs to 3 nvidia GPUs"},
			make: func(p *place) {
				p.AddQueue("capped", "{weight: 1, capability: {nvidia.com/gpu: 2}}")
				p.pod("holder", 2, inQueue("capped"))
				p.Bound("holder")
				p.pod("waits", 1, inQueue("capped"))
			}, run: "Raise the capability", starts: []string{"waits"},
		}, {
			name: "closed", pool: "free", code: "QueueClosed", says: []string{`queue "closed" is closed`}, helps: []string{`administrator: Open the queue "closed"`}, start: apiquery.StartsNever,
			make: func(p *place) {
				p.AddQueue("closed", "{weight: 1}")
				p.run(`kubectl patch queues.scheduling.volcano.sh closed --subresource=status --type=merge -p '{"status":{"state":"Closed"}}'`)
				p.pod("waits", 1, inQueue("closed"))
			}, run: "Open the queue", starts: []string{"waits"},
		}, {
			name: "no-queue", pool: "free", code: "NoQueue", says: []string{`there is no queue "nowhere"`}, helps: []string{"owner: Name a queue that exists"}, start: apiquery.StartsNever,
			make: func(p *place) { p.pod("waits", 1, inQueue("nowhere")) }, run: "Create the queue", starts: []string{"waits"},
		}, {
			name: "inner-queue", pool: "free", code: "InnerQueue", says: []string{`queue "inner" takes no jobs, only the queues below it do`}, helps: []string{`Name a queue below "inner"`},
			make: func(p *place) {
				p.AddQueue("inner", "{weight: 1}")
				p.AddQueue("leaf", "{weight: 1, parent: inner}")
				p.pod("waits", 1, inQueue("inner"))
			}, cure: func(p *place, _ *apiquery.Why) { p.pod("below", 1, inQueue("leaf")) }, starts: []string{"below"},
		}, {
			name: "forbidden", pool: "free", code: "QueueForbidden", says: []string{`namespace "forbidden" may not use queue "others"`}, helps: []string{`Add "forbidden" to the annotation tangram.dev/namespaces of queue "others"`},
			make: func(p *place) {
				p.apply("apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: others, annotations: {tangram.dev/namespaces: team-x}}\nspec: {weight: 1}\n")
				p.pod("waits", 1, inQueue("others"))
			},
			cure: func(p *place, _ *apiquery.Why) {
				p.run("kubectl annotate queues.scheduling.volcano.sh others tangram.dev/namespaces=team-x,forbidden --overwrite")
			}, starts: []string{"waits"},
		}, {
			name: "guaranteed", pool: "l4", code: "Guaranteed", never: true, says: []string{"guaranteed to other queues", "4 GPUs of model a10"}, helps: []string{"Lower guarantees of other queues by 1 GPUs of model a10"},
			make: func(p *place) {
				p.AddQueue("keeper", "{weight: 1, guarantee: {resource: {gpu.tangram.dev/a10: 4}}}")
				p.AddQueue("asks", "{weight: 1}")
				p.pod("waits", 1, model("A10"), inQueue("asks"))
			},
			cure: func(p *place, _ *apiquery.Why) {
				p.run(`kubectl patch queues.scheduling.volcano.sh keeper --type=merge -p '{"spec":{"guarantee":{"resource":{"gpu.tangram.dev/a10":"3"}}}}'`)
			}, starts: []string{"waits"},
		},
	}
}

// owners are situations that the specification, or the controller that creates pods, is the
// cause of.
func owners() []situation {
	groups := annotate(names.AnnotationGangGroups, "a b: min=2")
	return []situation{
		{
			name: "members", code: "Members", kind: "Gang", object: "g", says: []string{"2 of 4 exist"}, helps: []string{"Create 2 more members", "Lower the gang's minimum from 4 to 2"}, start: apiquery.StartsUnknown,
			make: func(p *place) { p.gang("g", 0, 2, 4, 1, poolOf("free")) },
			cure: func(p *place, _ *apiquery.Why) { p.gang("g", 2, 4, 4, 0) }, starts: []string{"g-0", "g-3"},
		}, {
			name: "role", code: "Members", kind: "PodGroup", object: "g", says: []string{`0 of 1 of role "ps" exist`}, helps: []string{`Create 1 more member of role "ps"`},
			make: func(p *place) {
				p.apply("apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: g, namespace: NS}\nspec: {minMember: 3, minTaskMember: {worker: 2, ps: 1}}\n")
				for i := range 3 {
					p.pod(fmt.Sprint("worker-", i), 0, annotate(names.AnnotationKubeGroup, "g"), annotate(names.AnnotationVolcanoTask, "worker"))
				}
			},
			cure: func(p *place, _ *apiquery.Why) {
				p.pod("ps-0", 0, annotate(names.AnnotationKubeGroup, "g"), annotate(names.AnnotationVolcanoTask, "ps"))
			}, starts: []string{"ps-0", "worker-0", "worker-1"},
		}, {
			name: "subgroup", code: "Members", kind: "Gang", object: "g", says: []string{`subgroup "b": 1 of 2 exist`}, helps: []string{`Create 1 more member of subgroup "b"`},
			make: func(p *place) {
				for _, name := range []string{"a-0", "a-1", "b-0"} {
					p.pod(name, 0, label(names.LabelGang, "g"), label(names.LabelGangGroup, name[:1]), groups)
				}
			},
			cure: func(p *place, _ *apiquery.Why) {
				p.pod("b-1", 0, label(names.LabelGang, "g"), label(names.LabelGangGroup, "b"), groups)
			}, starts: []string{"a-0", "b-1"},
		}, {
			name: "invalid", code: "Invalid", says: []string{"metadata.labels[tangram.dev/gang-size]", `"abc" is not a number`}, helps: []string{"owner: Change the field that is named: metadata.labels[tangram.dev/gang-size]"}, start: apiquery.StartsNever,
			make: func(p *place) {
				p.pod("waits", 1, poolOf("free"), label(names.LabelGang, "g"), label(names.LabelGangSize, "abc"))
			},
			cure: func(p *place, _ *apiquery.Why) {
				p.run("kubectl -n invalid label pod waits tangram.dev/gang-size=1 --overwrite")
			},
			starts: []string{"waits"},
		}, {
			name: "no-group", code: "Invalid", says: []string{`PodGroup "no-group/nowhere" does not exist`}, helps: []string{"Change the field that is named"},
			make: func(p *place) { p.pod("waits", 1, poolOf("free"), annotate(names.AnnotationKubeGroup, "nowhere")) },
			cure: func(p *place, _ *apiquery.Why) {
				p.apply("apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: nowhere, namespace: NS}\nspec: {minMember: 1}\n")
			}, starts: []string{"waits"},
		}, {
			name: "claim", code: "Invalid", says: []string{`ResourceClaim "nope"`}, helps: []string{"owner: Change"},
			make: func(p *place) {
				p.pod("waits", 1, func(pod *v1.Pod) {
					nope := "nope"
					pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &nope}}
				})
			},
		}, {
			name: "other-scheduler", code: "OtherScheduler", says: []string{`spec.schedulerName is "default-scheduler"`}, helps: []string{"owner: Submit it with spec.schedulerName: gpu-scheduler"},
			make: func(p *place) { p.pod("waits", 1, func(pod *v1.Pod) { pod.Spec.SchedulerName = "default-scheduler" }) },
		}, {
			name: "gate", code: "Gated", says: []string{"scheduling gates example.com/wait"}, helps: []string{"Let what set the gates remove them"},
			make: func(p *place) {
				p.pod("waits", 1, poolOf("free"), func(pod *v1.Pod) { pod.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/wait"}} })
			},
			cure: func(p *place, _ *apiquery.Why) {
				p.run(`kubectl -n gate patch pod waits --type=json -p '[{"op":"remove","path":"/spec/schedulingGates"}]'`)
			},
			starts: []string{"waits"},
		}, {
			name: "unplanned", code: "Unplanned", says: []string{"asks for no GPU, gang or queue", "nsufficient cpu"}, helps: []string{"Change what kube-scheduler names"},
			make: func(p *place) { p.pod("waits", 0, needs("cpu", "1000")) },
		}, {
			name: "no-object", code: "NoObject", says: []string{"there is no such object"}, helps: []string{"kubectl -n no-object get pods"}, start: apiquery.StartsNever, make: func(*place) {},
		}, {
			name: "no-pods", code: "NoPods", kind: "Job", says: []string{"has no pods"}, helps: []string{"See why its controller creates no pods", "kubectl -n no-pods describe job/waits"},
			make: func(p *place) {
				p.apply("apiVersion: batch/v1\nkind: Job\nmetadata: {name: waits, namespace: NS}\nspec: {parallelism: 2, completions: 2, suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: c, image: pause}]}}}\n")
			},
		}, {
			name: "ended", code: "Ended", says: []string{"has ended: Succeeded"}, helps: []string{"owner: Submit it anew"},
			make: func(p *place) {
				p.pod("waits", 0)
				p.run(`kubectl -n ended patch pod waits --subresource=status --type=merge -p '{"status":{"phase":"Succeeded"}}'`)
			},
		}, {
			name: "job", code: "Members", kind: "jobs", object: "train", says: []string{"job/train: waits for members: 1 of 2 exist"}, helps: []string{"kubectl -n job describe job/train"},
			make: func(p *place) {
				p.apply("apiVersion: batch/v1\nkind: Job\nmetadata: {name: train, namespace: NS}\nspec: {parallelism: 2, completions: 2, completionMode: Indexed, template: {spec: {restartPolicy: Never, containers: [{name: c, image: pause}]}}}\n")
				job := p.Object(cluster.Jobs, "train")
				p.pod("train-0", 1, poolOf("free"), func(pod *v1.Pod) {
					yes := true
					pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "train", UID: job.GetUID(), Controller: &yes}}
				})
			},
		}, {
			name: "contested", code: "Contested", says: []string{"device 0 is held by pods that had it first"}, helps: []string{"administrator: Delete one of the pods"},
			make: func(p *place) {
				record := annotate(names.AnnotationDevices, `{"version":1,"node":"contest-0","containers":[{"name":"main","resource":"nvidia.com/gpu","devices":[{"index":0}]}]}`)
				on := func(pod *v1.Pod) { pod.Spec.NodeName = "contest-0" }
				p.pod("holder", 1, record, on)
				p.pod("waits", 1, record, on)
			},
		},
	}
}

// turns are situations that the order of jobs is the cause of.
func turns() []situation {
	hour := annotate(names.AnnotationRuntime, "1h")
	return []situation{
		{
			name: "turn", pool: "strict", scheduler: strictScheduler, code: "Turn", says: []string{"waits for its turn:", "the next is turn/first"}, helps: []string{"Nothing has to be done: it starts after"},
			make: func(p *place) {
				p.AddQueue("turns", "{weight: 1}")
				q := inQueue("turns")
				full := cluster.On(v1.LabelHostname, "strict-0")
				p.pod("holder", 4, q, full)
				p.Bound("holder")
				p.pod("first", 1, q, full)
				p.Eventually("the first waits", func() (bool, string) {
					w := p.why("", "first")
					return w.Reason.Code == "Nodes", w.Text
				})
				p.pod("waits", 1, q)
			},
			cure: func(p *place, _ *apiquery.Why) { p.Delete("first") }, starts: []string{"waits"},
		}, {
			name: "kept", pool: "kept", scheduler: keepingScheduler, code: "NodesKept", says: []string{"nodes it could use are kept for kept/big"}, helps: []string{"Declare how long it runs", "kubectl -n kept annotate pod/waits tangram.dev/runtime=30m"},
			make: func(p *place) {
				p.AddQueue("kept-a", "{weight: 1}")
				p.AddQueue("kept-b", "{weight: 1}")
				p.pod("holder", 4, hour, inQueue("kept-a"))
				p.Bound("holder")
				p.gang("big", 0, 2, 2, 4, inQueue("kept-a"))
				p.Eventually("nodes are kept", func() (bool, string) {
					w := p.why("Gang", "big")
					return w.Start.Known == apiquery.StartsReserved && w.Start.At != nil && len(w.Start.Nodes) == 2, fmt.Sprintf("%s %+v", w.Text, w.Start)
				})
				// Of other users' pods that are alike it is learned how long they run.
				p.pod("waits", 1, inQueue("kept-b"), annotate(names.AnnotationUser, "kept"))
			}, run: "Declare how long it runs", starts: []string{"waits"},
		}, {
			name: "scale", pool: "scale", scheduler: strictScheduler, code: "Nodes|NoDomain", kind: "Gang", object: "g", says: []string{"nodes are asked for"}, helps: []string{"time: An autoscaler was asked for nodes"},
			make: func(p *place) {
				p.AddQueue("scale", "{weight: 1}")
				for _, node := range []string{"scale-0", "scale-2"} {
					p.pod("on-"+node, 2, inQueue("scale"), cluster.On(v1.LabelHostname, node))
					p.Bound("on-" + node)
				}
				p.gang("g", 0, 2, 2, 2, inQueue("scale"), annotate(names.AnnotationTopology, "required=rack"))
			},
		}, {
			name: "back-off", pool: "aaa", labels: map[string]string{"bind": "never"}, code: "BackOff", says: []string{"its last start failed and is tried again"}, helps: []string{"time: It is tried again by itself"},
			make: func(p *place) { p.pod("waits", 1) },
			cure: func(p *place, _ *apiquery.Why) { p.run("kubectl label namespace back-off bind-") }, starts: []string{"waits"},
		},
	}
}

// poolOf binds a pod to a pool.
func poolOf(pool string) cluster.Change { return cluster.On("pool", pool) }

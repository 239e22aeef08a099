package migrate

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// kaiRules: action/NAME, off/ACTION, plugin/NAME, plugin/NAME/ARGUMENT, field/NAME of a
// SchedulingShard or of the scheduler's configuration, config/NAME of the operator's Config.
var kaiRules = []rule{
	{"action/allocate", "", Always, "", "gangs start whole or not at all"},
	{"action/consolidation", "", None, "", "pods that run are not moved; GPUScore's objective fragmentation avoids the need"},
	{"action/reclaim", "", Set, "GPUQueue.preemption: true", "between queues by share"},
	{"action/preempt", "", Set, "GPUQueue.preemption: true", "inside a queue by priority"},
	{"action/stalegangeviction", "", None, "", "a gang that lost members gets them back first and is not ended; a Job's own policies end it"},
	{"off/preempt|reclaim", "", Set, "GPUQueue.preemption", "one switch for preempt and reclaim"},
	{"off/allocate", "", None, "scheduler.replicas: 0", "a scheduler that starts nothing is one that does not run"},
	{"off/*", "", Always, "", "never done here"},

	{"plugin/predicates", "", Always, "", "kube-scheduler's own filters, all of them: KAI has no PodTopologySpread and no volume limits"},
	{"plugin/proportion", "", Always, "", "Queues of scheduling.run.ai are read as they are: quota, limit, overQuotaWeight, priority"},
	{"plugin/priority", "", Always, "", "gangs go by PriorityClass, then by age"},
	{"plugin/nodeavailability", "", Always, "", "kube-scheduler's own filters"},
	{"plugin/resourcetype", "", Always, "", "GPUScore keeps pods without GPUs off GPU nodes"},
	{"plugin/podaffinity", "", Always, "", "kube-scheduler's own filter and score"},
	{"plugin/elastic", "", Always, "", "gangs run at their minimum and grow"},
	{"plugin/kubeflow", "", Always, "", "PyTorchJob and the like are gangs by themselves"},
	{"plugin/ray", "", Always, "", "a RayCluster is a gang by itself"},
	{"plugin/subgrouporder", "", Always, "", "subgroups are planned together"},
	{"plugin/taskorder", "", Always, "", "members of a gang start together; kai.scheduler/task-priority has no effect"},
	{"plugin/nominatednode", "", Always, "", ""},
	{"plugin/dynamicresources", "", Always, "GPUClaims", "ResourceClaims are planned with the ledger"},
	{"plugin/minruntime", "", Always, "", "preemptMinRuntime and reclaimMinRuntime of Queues: the longer of both counts for both"},
	{"plugin/topology", "", Always, "", "Topology objects of kai.scheduler are read as levels of domains"},
	{"plugin/snapshot", "", Differs, "tangram dump", "a dump of the scheduler's state that can be replayed offline"},
	{"plugin/reflectjoborder", "", Differs, "tangram jobs", "the position of every gang that waits"},
	{"plugin/gpupack", "", Set, "GPUScore.placement=binpack", "at nodes and devices"},
	{"plugin/gpuspread", "", Set, "GPUScore.placement=spread", "at nodes and devices"},
	{"plugin/nodeplacement", "", Set, "GPUScore.placement", "see its arguments"},
	{"plugin/gpusharingorder", "", Always, "", "shares go to devices that are shared already where pods are packed"},
	{"plugin/numa", "", Differs, "tangram.dev/topology: required=numa", "NodeResourceTopology objects are read; the policy of kubelet is predicted for GPUs"},
	{"plugin|field/nodeplacement|placementStrategy/gpu", "binpack|spread", Set, "GPUScore.placement=$", "a pod, queue or namespace may say otherwise"},
	{"plugin|field/nodeplacement|placementStrategy/cpu", "binpack|spread", Differs, "NodeResourcesFit.scoringStrategy", "for pods without GPUs: write pluginConfig of NodeResourcesFit (MostAllocated or LeastAllocated) by hand"},
	{"plugin/minruntime/defaultPreemptMinRuntime|defaultReclaimMinRuntime", "", Differs, "Queue spec.preemptMinRuntime, spec.reclaimMinRuntime", "write it into the topmost Queues: it holds for those below as well"},
	{"plugin/minruntime/reclaimResolveMethod", "", None, "", "a queue's own value counts, else that of the next queue above it"},
	{"plugin/proportion/reclaimerUtilizationMultiplier", "", None, "", "a queue may reclaim up to its share"},
	{"plugin/proportion/kValue", "", Differs, "", "what queues used above their share is paid back from their balance, without Prometheus; the rate is not a setting"},
	{"plugin/*/*", "", None, "", "no such setting"},

	{"field/partitionLabelValue", "", Differs, "label kai.scheduler/node-pool", "one scheduler serves all pools: pods with the label run on nodes with the same value, pods without it anywhere; give such a pool's pods the label"},
	{"field/queueDepthPerAction/*", "", None, "", "all gangs that wait are looked at; only what has changed costs time"},
	{"field/minRuntime/*", "", Differs, "Queue spec.preemptMinRuntime, spec.reclaimMinRuntime", "write it into the topmost Queues: it holds for those below as well"},
	{"field/kValue|usageDBConfig", "", Differs, "", "what queues used above their share is paid back from their balance, without Prometheus; the rate is not a setting"},
	{"field/scenarioSearchBudgets", "", None, "", "searches are bounded by counted steps, in fractions of a second"},
	{"field/goMemLimit*", "", None, "scheduler.resources", "the chart's limits"},
	{"field/args/max-consolidation-preemptees", "", None, "", "pods that run are not moved; GPUScore's objective fragmentation avoids the need"},
	{"field/args/default-staleness-grace-period", "", None, "", "a gang that lost members gets them back first and is not ended; a Job's own policies end it"},
	{"field/args/schedule-period", "", Always, "", "decisions follow events, not a period"},
	{"field/args/detailed-fit-errors", "", Always, "", "reasons with numbers are always there"},
	{"field/args/use-scheduling-signatures", "", Always, "", "equal gangs are planned once"},
	{"field/args/leader-elect", "", Always, "leaderElection.leaderElect", ""},
	{"field/args/restrict-node-scheduling", "", None, "", "taint GPU nodes, or write nodeSelector; GPUScore keeps pods without GPUs off GPU nodes as far as it can"},
	{"field/args/schedule-csi-storage|full-hierarchy-fairness|num-of-status-recording-workers|update-pod-eviction-condition", "", Always, "", ""},
	{"field/args/qps|burst", "", Differs, "clientConnection.*", "5000 by default, so that binding is not slowed down"},
	{"field|config/args|global/queue-label-key|queueLabelKey", "|" + names.LabelKAIQueue + "|" + names.LabelRunaiQueue, Always, "", ""},
	{"field|config/args|global/queue-label-key|queueLabelKey", "", None, "", "pods name their queue by the label kai.scheduler/queue or tangram.dev/queue; this one is not read"},
	{"field/args/*", "", None, "", "no such flag"},

	{"config/podGrouper", "", Always, "", "gangs are read from the workloads themselves; no PodGroups are made"},
	{"config/binder", "", Always, "", "the scheduler binds, devices included; there are no BindRequests and no reservation pods"},
	{"config/admission", "", Differs, "config/admission/kai.yaml", "no webhook: an admission policy of the API server adds HAMi's resources to pods with gpu-fraction"},
	{"config/queueController", "", Always, "", "statuses of KAI's Queues are not written; kubectl get queues.scheduling.volcano.sh has Tangram's"},
	{"config/podGroupController", "", Always, "", "statuses of KAI's PodGroups are not written; the pods' conditions say why they wait"},
	{"config/nodeScaleAdjuster", "", Differs, "autoscaling.enabled", "placeholder pods ask for nodes of the domain that a gang lacks"},
	{"config/scheduler", "", None, "scheduler.resources", "the chart's values"},
	{"config/prometheus", "", Differs, "monitoring.enabled", "ServiceMonitors, rules and dashboards of the chart"},
	{"config/numaPlacement", "", None, "", "not needed: NodeResourceTopology objects are read"},
	{"config/namespace", "", None, "", "helm's --namespace"},
	{"config/global/schedulerName", "", Set, "profiles[].schedulerName=", "a profile of that name"},
	{"config/global/nodePoolLabelKey", "kai.scheduler/node-pool", Always, "", ""},
	{"config/global/nodePoolLabelKey", "", None, "", "node pools are told by the label kai.scheduler/node-pool; label nodes and pods, or use nodeSelector"},
	{"config/global/clusterAutoscaling", "", Differs, "autoscaling.enabled", "the chart's value"},
	{"config/global/blockNvidiaVisibleDevices", "", Always, "", "an agent in mode serve refuses containers that set NVIDIA_VISIBLE_DEVICES themselves where that would count"},
	{"config/global/replicaCount", "", Differs, "scheduler.replicas, controller.replicas", "2 by default; one leads"},
	{"config/global/tolerations", "", Differs, "scheduler.tolerations, agent.tolerations", "the chart's values of each component"},
	{"config/global/daemonsetsTolerations", "", Differs, "agent.tolerations", "the chart's values of each component"},
	{"config/global/affinity", "", Differs, "scheduler.affinity, agent.affinity", "the chart's values of each component"},
	{"config/global/imagesPullSecret|additionalImagePullSecrets", "", Differs, "image.pullSecrets", "the chart's values of each component"},
	{"config/global/openshift|securityContext|fips|vpa|requireDefaultPod*", "", None, "", "no such value of the chart"},
	{"config/global/namespaceLabelSelector|podLabelSelector", "", None, "", "no webhooks; a pod is Tangram's by its schedulerName"},
	{"config/global/*", "", None, "", "no such setting"},
}

const kaiShardFields = "not a field of a SchedulingShard or of KAI's scheduler configuration"

// kaiConf reads KAI's scheduler configuration, the entry config.yaml of its ConfigMap.
func (b *builder) kaiConf(n node) {
	b.Result.profile(names.KAISchedulerName)
	b.walk(n, "field", kaiShardFields, func(path string, n node) bool {
		switch path {
		case "field/actions":
			b.actions(n, "KAI")
		case "field/tiers":
			b.tiers(n, func(p node, name string) {
				b.kaiPlugin(at{p.Get("name"), p.Path, name}, name)
				for _, f := range p.Entries() {
					switch f.Key {
					case "name":
					case "arguments":
						b.walk(f.Node, "plugin/"+name, "", nil)
					default:
						b.unknown(f.Node, "not a field of a plugin, which has name and arguments")
					}
				}
			})
		default:
			return false
		}
		return true
	})
}

func (b *builder) kaiPlugin(p at, name string) {
	if !b.judge("plugin/"+name, p) {
		b.unknown(p.node, strconv.Quote(name)+" is not a plugin of KAI; a plugin of your own has no counterpart: write it as a plugin of kube-scheduler")
	}
}

// kaiShard reads a SchedulingShard.
func (b *builder) kaiShard(n node) {
	b.Result.profile(names.KAISchedulerName)
	preempt, reclaim := true, true
	b.walk(n.Get("spec"), "field", kaiShardFields, func(path string, n node) bool {
		switch path {
		case "field/actions":
			for _, a := range n.Entries() {
				off := a.Get("enabled").Text() == "false"
				switch known := len(about(b.from, "action/"+a.Key)) > 0; {
				case !known:
					b.unknown(a.Node, strconv.Quote(a.Key)+" is not an action of KAI")
				case off:
					b.judge("off/"+a.Key, at{a.Node, a.Path, a.Key + " (disabled)"})
				default:
					b.judge("action/"+a.Key, at{a.Node, a.Path, a.Key})
				}
				preempt, reclaim = preempt && !(off && a.Key == "preempt"), reclaim && !(off && a.Key == "reclaim")
				b.kaiSwitches(a, "enabled", "priority")
			}
			b.preemption(n, preempt, reclaim)
		case "field/plugins":
			for _, p := range n.Entries() {
				if p.Get("enabled").Text() != "false" || p.Key != "gpupack" && p.Key != "gpuspread" {
					b.kaiPlugin(at{p.Node, p.Path, p.Key}, p.Key)
				}
				b.kaiSwitches(p, "enabled", "priority", "arguments")
				b.walk(p.Get("arguments"), "plugin/"+p.Key, "", nil)
			}
		default:
			return false
		}
		return true
	})
}

// kaiSwitches are enabled and priority of an action or plugin.
func (b *builder) kaiSwitches(e entry, fields ...string) {
	always := slices.ContainsFunc(about(b.from, "plugin/"+e.Key), func(r rule) bool { return r.verdict == Always })
	for _, f := range e.Entries() {
		switch {
		case !slices.Contains(fields, f.Key):
			b.unknown(f.Node, "there are "+strings.Join(fields, ", "))
		case f.Key == "enabled" && f.Text() == "false" && always:
			b.row(of(f.Node), answer{None, "", "it cannot be switched off: it is part of every decision"})
		case f.Key == "priority":
			b.row(of(f.Node), answer{None, "", "plugins and actions have no order here"})
		}
	}
}

// kaiConfig reads the operator's Config.
func (b *builder) kaiConfig(n node) {
	b.walk(n.Get("spec"), "config", "not a field of KAI's Config", nil)
	b.Result.profile(names.KAISchedulerName)
}

// kaiQueue reads a Queue of scheduling.run.ai, which needs no translation; -o queues has it
// as a Queue of Volcano's kind, for clusters from which KAI's definitions are removed.
func (b *builder) kaiQueue(n node) {
	object, err := asObject(n)
	if err != nil {
		b.problem(n.Problem("%v", err))
		return
	}
	q, err := dialect.KAIQueueOf(&unstructured.Unstructured{Object: object})
	if err != nil {
		b.problem(n.Problem("%v", err))
		return
	}
	name := objectName(n)
	b.row(at{n, name, ""}, answer{Always, "Queue/" + q.Name, "read as it is; -o queues has it as a Queue of Volcano's kind"})
	kind, _ := knownKind(dialect.KAIQueues.Group, "Queue")
	walkLeaves(n.Get("spec"), "spec", func(leaf node, path string) {
		if !kind.Knows(path) && path != "spec.displayName" {
			b.unknown(leaf, "not a field of a Queue that is read")
		}
	})
	if q.MinRuntime > 0 {
		b.row(at{n, name + " spec.preemptMinRuntime, reclaimMinRuntime", q.MinRuntime.String()}, answer{Differs, "tangram.dev/min-runtime",
			"counts while the Queue is of KAI's kind; Volcano's kind has no field for it: write the annotation into the pods"})
	}
	b.Result.queues = append(b.Result.queues, queueObject(q))
}

// knownKind is a kind that internal/dialect reads; false for others.
func knownKind(group, kind string) (dialect.KnownKind, bool) {
	for _, k := range dialect.KnownKinds() {
		if k.Group == group && k.Kind == kind {
			return k, true
		}
	}
	return dialect.KnownKind{}, false
}

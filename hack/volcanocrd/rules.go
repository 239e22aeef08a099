package main

import "fmt"

// kind is one definition: the file controller-gen writes and what is added to it.
type kind struct {
	file      string
	additions []addition
	columns   []column
}

// column is one more of those that kubectl get prints; a wide one needs -o wide.
type column struct {
	name, kind, path string
	wide             bool
}

func (c column) entry() map[string]any {
	out := map[string]any{"name": c.name, "type": c.kind, "jsonPath": c.path}
	if c.wide {
		out["priority"] = 1
	}
	return out
}

// addition is what one place of a schema gets: plain keywords, and CEL rules.
type addition struct {
	path  string // see schemaAt; "" is the object itself
	set   map[string]any
	rules []rule
}

// rule is one x-kubernetes-validations entry. field is the path below the place
// of the rule that the API server names in its answer.
type rule struct{ cel, message, field string }

func (a addition) list() []any {
	out := make([]any, 0, len(a.rules))
	for _, r := range a.rules {
		entry := map[string]any{"rule": r.cel, "message": r.message}
		if r.field != "" {
			entry["fieldPath"] = r.field
		}
		out = append(out, entry)
	}
	return out
}

func kinds() []kind {
	return []kind{
		{"batch.volcano.sh_jobs.yaml", jobAdditions(), []column{{"MESSAGE", "string", ".status.state.message", true}}},
		{"bus.volcano.sh_commands.yaml", commandAdditions(), nil},
		{"scheduling.volcano.sh_podgroups.yaml", podGroupAdditions(), nil},
		{"scheduling.volcano.sh_queues.yaml", queueAdditions(), []column{
			{"STATE", "string", ".status.state", false},
			{"WEIGHT", "integer", ".spec.weight", false},
			{"PENDING", "integer", ".status.pending", false},
			{"INQUEUE", "integer", ".status.inqueue", false},
			{"RUNNING", "integer", ".status.running", false},
			{"GPUS", "string", `.status.allocated.nvidia\.com/gpu`, false},
			{"COMPLETED", "integer", ".status.completed", true},
			{"UNKNOWN", "integer", ".status.unknown", true},
			{"ALLOCATED", "string", ".status.allocated", true},
		}},
	}
}

// Limits. The API server refuses a CEL rule whose cost it cannot bound, and a list
// without a maximum has no bound. They are far above what is used.
const (
	maxTasks     = 100
	maxPolicies  = 100
	maxNames     = 25
	maxResources = 64
	maxQuantity  = 64
	maxDuration  = 64
	maxPlugins   = 16
	maxArguments = 16
	maxArgument  = 16384 // a private key
	// maxReplicas is also the largest gang that the scheduler reads.
	maxReplicas = 100000
)

// replicas is the sum of a job's replicas in CEL, seen from the spec.
const replicas = "self.tasks.map(t, has(t.replicas) ? t.replicas : 0).sum()"

func jobAdditions() []addition {
	return append([]addition{
		{path: "", rules: []rule{
			{"self.metadata.name.size() <= 63", "metadata.name: at most 63 characters, since it becomes a label and part of host names", ""},
		}},
		{path: "spec", rules: []rule{
			{"has(self.tasks)", "a job needs at least one task", ".tasks"},
			{"!has(self.tasks) || " + replicas + " > 0", "the tasks have no replicas at all", ".tasks"},
			{fmt.Sprintf("!has(self.tasks) || %s <= %d", replicas, maxReplicas), fmt.Sprintf("the tasks have more than %d replicas in all", maxReplicas), ".tasks"},
			{"!has(self.minAvailable) || !has(self.tasks) || self.minAvailable <= " + replicas, "minAvailable is above the sum of the tasks' replicas", ".minAvailable"},
			{"!has(self.minSuccess) || !has(self.tasks) || self.minSuccess <= " + replicas, "minSuccess is above the sum of the tasks' replicas", ".minSuccess"},
			{"!has(self.tasks) || self.tasks.all(t, !has(t.name) || self.tasks.exists_one(u, has(u.name) && u.name == t.name))", "two tasks have the same name", ".tasks"},
			{"!has(self.tasks) || self.tasks.all(t, !has(t.dependsOn) || !has(t.dependsOn.name) || t.dependsOn.name.all(n, self.tasks.exists(u, has(u.name) && u.name == n)))", "dependsOn names a task that the job does not have", ".tasks"},
			{"!has(self.tasks) || !has(oldSelf.tasks) || self.tasks.map(t, has(t.name) ? t.name : '') == oldSelf.tasks.map(t, has(t.name) ? t.name : '')", "tasks cannot be added, removed or renamed", ".tasks"},
			{"has(self.plugins) == has(oldSelf.plugins) && (!has(self.plugins) || self.plugins == oldSelf.plugins)", "plugins cannot change: pods have what they made", ".plugins"},
		}},
		{path: "spec.queue", rules: []rule{{"self == oldSelf", "a job cannot move to another queue", ""}}},
		{path: "spec.plugins", set: map[string]any{"maxProperties": maxPlugins}},
		{path: "spec.plugins{}", set: map[string]any{"maxItems": maxArguments}},
		{path: "spec.plugins{}[]", set: map[string]any{"maxLength": maxArgument}},
		{path: "spec.runningEstimate", set: map[string]any{"maxLength": maxDuration}, rules: []rule{
			{"duration(self) > duration('0s')", "a duration above 0, like 90m or 12h", ""},
		}},
		// One more at the same place would be hidden behind the first.
		{path: "spec.volumes", set: map[string]any{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": []any{"mountPath"}}},
		{path: "spec.tasks", set: map[string]any{"maxItems": maxTasks}},
		{path: "spec.tasks[].replicas", set: map[string]any{"maximum": maxReplicas}},
		{path: "spec.tasks[].template.spec.containers", set: map[string]any{"minItems": 1}},
		{path: "spec.tasks[]", rules: []rule{
			{"has(self.template) && has(self.template.spec)", "a task needs a pod to run", ".template.spec"},
			{"!has(self.minAvailable) || self.minAvailable <= (has(self.replicas) ? self.replicas : 0)", "minAvailable is above the task's replicas", ".minAvailable"},
			{"!has(self.partitionPolicy) || self.partitionPolicy.totalPartitions * self.partitionPolicy.partitionSize == (has(self.replicas) ? self.replicas : 0)", "totalPartitions times partitionSize is not the task's replicas", ".partitionPolicy"},
			{"!has(self.dependsOn) || !has(self.dependsOn.name) || !has(self.name) || !(self.name in self.dependsOn.name)", "a task cannot depend on itself", ".dependsOn"},
		}},
		{path: "spec.tasks[].dependsOn.name", set: map[string]any{"maxItems": maxNames}},
		{path: "spec.tasks[].dependsOn.name[]", set: map[string]any{"maxLength": 63}},
		{path: "spec.tasks[].dependsOn.iteration", set: map[string]any{"enum": []any{"any", "all"}}},
	}, append(policyAdditions("spec.policies"), policyAdditions("spec.tasks[].policies")...)...)
}

// policyAdditions are the checks of a list of lifecycle policies.
func policyAdditions(path string) []addition {
	// The module also lists the words controllers use among themselves.
	events := []any{"*", "PodFailed", "PodEvicted", "PodPending", "PodRunning", "Unknown", "TaskCompleted", "TaskFailed"}
	actions := []any{"AbortJob", "RestartJob", "RestartTask", "RestartPod", "RestartPartition", "TerminateJob", "CompleteJob", "ResumeJob"}
	return []addition{
		{path: path, set: map[string]any{"maxItems": maxPolicies}},
		{path: path + "[]", set: map[string]any{"required": []any{"action"}}, rules: []rule{
			{"has(self.exitCode) != (has(self.event) || has(self.events))", "either event or events, or exitCode", ""},
			{"!has(self.exitCode) || self.exitCode != 0", "0 is no failure; use event TaskCompleted", ".exitCode"},
		}},
		{path: path + "[].event", set: map[string]any{"enum": events}},
		{path: path + "[].events", set: map[string]any{"maxItems": len(events)}},
		{path: path + "[].events[]", set: map[string]any{"enum": events}},
		{path: path + "[].action", set: map[string]any{"enum": actions}},
		{path: path + "[].timeout", set: map[string]any{"maxLength": maxDuration}, rules: []rule{
			{"duration(self) >= duration('0s')", "a duration, like 30s or 2h", ""},
		}},
	}
}

func commandAdditions() []addition {
	return []addition{
		{path: "", set: map[string]any{"required": []any{"action", "target"}}},
		{path: "action", set: map[string]any{"enum": []any{
			"AbortJob", "RestartJob", "TerminateJob", "CompleteJob", "ResumeJob", "OpenQueue", "CloseQueue",
		}}},
		{path: "target.kind", set: map[string]any{"enum": []any{"Job", "Queue"}}},
	}
}

func podGroupAdditions() []addition {
	return append(resources("spec.minResources"),
		// The module says 0; a gang without members is a mistake, and leaving it out is not.
		addition{path: "spec.minMember", set: map[string]any{"minimum": 1}},
		addition{path: "spec.minTaskMember{}", set: map[string]any{"minimum": 0}},
	)
}

func queueAdditions() []addition {
	out := []addition{
		{path: "", rules: []rule{
			{"self.metadata.name.size() <= 63", "metadata.name: at most 63 characters, since it becomes a label of pods", ""},
			{"!has(self.spec) || !has(self.spec.parent) || self.spec.parent != self.metadata.name", "a queue cannot be its own parent", ".spec.parent"},
			{"self.metadata.name != 'root' || !has(self.spec) || !has(self.spec.parent)", "the root has no parent", ".spec.parent"},
			{"!has(self.spec) || !has(self.spec.parent) || self.spec.parent != 'default'", "default takes the jobs that name no queue, so it cannot have queues below it", ".spec.parent"},
		}},
		{path: "spec", rules: []rule{
			notAbove("guarantee.resource", "capability", "guarantee is above capability"),
			notAbove("guarantee.resource", "deserved", "guarantee is above deserved"),
			notAbove("deserved", "capability", "deserved is above capability"),
		}},
	}
	for _, path := range []string{"spec.capability", "spec.deserved", "spec.guarantee.resource"} {
		out = append(out, resources(path)...)
	}
	return out
}

// notAbove says that no amount of one resource list exceeds the other's, where both
// name it.
func notAbove(low, high, message string) rule {
	has := "has(self." + low + ")"
	field := "." + low
	if low == "guarantee.resource" {
		has = "has(self.guarantee) && has(self.guarantee.resource)"
	}
	return rule{
		"!(" + has + ") || !has(self." + high + ") || self." + low + ".all(k, !(k in self." + high + ") || " +
			"quantity(string(self." + low + "[k])).compareTo(quantity(string(self." + high + "[k]))) <= 0)",
		message, field,
	}
}

// resources are the checks of a resource list.
func resources(path string) []addition {
	return []addition{
		{path: path, set: map[string]any{"maxProperties": maxResources}, rules: []rule{
			{"self.all(k, quantity(string(self[k])).compareTo(quantity('0')) >= 0)", "an amount is negative", ""},
		}},
		{path: path + "{}", set: map[string]any{"maxLength": maxQuantity}},
	}
}

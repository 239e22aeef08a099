// Package config embeds the default files, so that a program runs from one binary
// and the files people read and copy are the ones that run.
package config

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
)

//go:embed crd/*.yaml crd/volcano/*.yaml scheduler.yaml extender.yaml rbac.yaml controller-rbac.yaml agent-rbac.yaml extender-rbac.yaml autoscaling.yaml agent-dra-rbac.yaml deviceclasses.yaml tenants/*.yaml admission/*.yaml
var files embed.FS

// Scheduler is the default KubeSchedulerConfiguration of gpu-scheduler.
func Scheduler() []byte { return read("scheduler.yaml") }

// SchedulerForAll is Scheduler with one more profile, default-scheduler: it also places
// pods that name no scheduler. For clusters without another kube-scheduler, as the local
// one: two of one name would both bind a pod.
func SchedulerForAll() []byte {
	// profiles is the last field of the file, and the first profile has the anchors.
	return append(Scheduler(), `- schedulerName: default-scheduler
  percentageOfNodesToScore: 100
  plugins: *plugins
  pluginConfig: *pluginConfig
`...)
}

// WithRecording is a configuration of gpu-scheduler that keeps so many megabytes of what the
// engine was told and decided, for tangram replay.
func WithRecording(scheduler []byte, megabytes int) []byte {
	const before = "      preemption: true\n" // of GPUQueue's arguments
	return bytes.Replace(scheduler, []byte(before), fmt.Appendf([]byte(before), "      recording: {megabytes: %d}\n", megabytes), 1)
}

// Extender is the configuration of a stock kube-scheduler that asks gpu-extender.
func Extender() []byte { return read("extender.yaml") }

// RBAC lets the user system:tangram:gpu-scheduler do what the scheduler needs.
func RBAC() []byte { return read("rbac.yaml") }

// ControllerRBAC lets the user system:tangram:gpu-controller do what the controller
// needs.
func ControllerRBAC() []byte { return read("controller-rbac.yaml") }

// AgentRBAC lets the user system:tangram:gpu-agent do what the agents of nodes need.
func AgentRBAC() []byte { return read("agent-rbac.yaml") }

// Autoscaling is what scheduler and controller need beside their other rights to ask
// autoscalers for nodes: the object by which they speak, and where placeholder pods are.
func Autoscaling() []byte { return read("autoscaling.yaml") }

// AgentDRA is what agents that are DRA drivers need besides: further permissions for the
// user system:tangram:gpu-agent, and the DeviceClasses of what they publish.
func AgentDRA() []byte {
	return bytes.Join([][]byte{read("agent-dra-rbac.yaml"), read("deviceclasses.yaml")}, []byte("\n---\n"))
}

// TenantPolicies are the admission policies that check what pods may claim: queues, priority
// classes, user names, exemptions. Without TenantBindings they do nothing.
func TenantPolicies() []byte { return read("tenants/policies.yaml") }

// TenantBindings switch TenantPolicies on.
func TenantBindings() []byte { return read("tenants/bindings.yaml") }

// TenantRoles are the ClusterRoles of tenants, and of programs that correct records.
func TenantRoles() []byte { return read("tenants/roles.yaml") }

// KAIAdmission translates KAI's annotations for a part of a GPU when a pod is created.
func KAIAdmission() []byte { return read("admission/kai.yaml") }

// ExtenderRBAC lets the user system:tangram:gpu-extender do what the extender needs.
func ExtenderRBAC() []byte { return read("extender-rbac.yaml") }

// CRDs are the definitions of Tangram's own kinds, as one stream of YAML documents
// in the order of their file names.
func CRDs() []byte { return documents("crd/*.yaml") }

// VolcanoCRDs are the definitions of Volcano's kinds that Tangram serves: Queue,
// PodGroup, Job and Command.
func VolcanoCRDs() []byte { return documents("crd/volcano/*.yaml") }

func documents(pattern string) []byte {
	names, err := fs.Glob(files, pattern)
	if err != nil {
		panic(err) // the pattern is a constant
	}
	var docs [][]byte
	for _, name := range names {
		docs = append(docs, read(name))
	}
	return bytes.Join(docs, []byte("\n---\n"))
}

// read cannot fail for a name that the go:embed pattern above holds.
func read(name string) []byte {
	data, err := files.ReadFile(name)
	if err != nil {
		panic(fmt.Sprintf("embedded file: %v", err))
	}
	return data
}

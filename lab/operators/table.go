package operators

import (
	"path/filepath"
	"slices"
	"strconv"
)

// loopback is where operators serve.
const loopback = "127.0.0.1"

// reach is how the API server reaches an operator's webhooks.
type reach int

const (
	// none: it has no webhooks.
	none reach = iota
	// byURL: with certificates of the cluster's authority.
	byURL
	// byService: the operator makes its certificates for a Service, writes them into a
	// Secret and the authority into its webhook configurations. The Service is an
	// ExternalName for this machine; the Secret is written to where a volume would have it.
	byService
)

// operator is one row: what is particular to one program.
type operator struct {
	name     string
	webhooks reach
	// secret is the namespace/name of the Secret with the certificates, for byService.
	secret string
	// config is its configuration file, given by --config; nil when it takes none.
	config func(s serving) object
	args   func(s serving) []string
	env    func(s serving) []string
	// health is the path that answers when it is ready; /readyz when empty.
	health string
}

// object is a piece of YAML.
type object = map[string]any

// serving is where one run of an operator serves, and what it may use.
type serving struct {
	health, metrics, webhook int // ports
	// paths are those of its webhooks.
	paths []string
	// certs is the folder of tls.crt and tls.key.
	certs string
	// temp is $TMPDIR: some operators look for certificates there and nowhere else.
	temp string
	// bin is the folder of operators.
	bin string
}

func at(port int) string { return loopback + ":" + strconv.Itoa(port) }

// table has a row per operator. To run another one, add a row here and one to
// hack/operators.sh.
var table = []operator{
	{
		name: "kuberay", health: "/healthz",
		args: func(s serving) []string {
			return []string{"--enable-leader-election=false", "--metrics-addr=" + at(s.metrics), "--health-probe-bind-address=" + at(s.health)}
		},
	},
	{name: "jobset", webhooks: byURL, config: func(s serving) object { return managerConfig("config.jobset.x-k8s.io/v1alpha1", s) }},
	{name: "lws", webhooks: byURL, config: func(s serving) object { return managerConfig("config.lws.x-k8s.io/v1alpha1", s) }},
	{
		name: "kueue", webhooks: byService, secret: "kueue-system/kueue-webhook-server-cert",
		// Without authentication delegated to it, it cannot serve its visibility API.
		args: func(serving) []string { return []string{"--feature-gates=VisibilityOnDemand=false"} },
		config: func(s serving) object {
			c := managerConfig("config.kueue.x-k8s.io/v1beta2", s)
			c["namespace"] = "kueue-system"
			c["internalCertManagement"] = object{"enable": true, "webhookServiceName": "kueue-webhook-service", "webhookSecretName": "kueue-webhook-server-cert"}
			c["clientConnection"] = object{"qps": 500, "burst": 1000}
			// As in its release. Kinds that are not installed are left alone.
			c["integrations"] = object{"frameworks": []string{
				"batch/job", "kubeflow.org/mpijob", "ray.io/rayjob", "ray.io/raycluster", "jobset.x-k8s.io/jobset",
				"kubeflow.org/paddlejob", "kubeflow.org/pytorchjob", "kubeflow.org/tfjob", "kubeflow.org/xgboostjob", "kubeflow.org/jaxjob",
				"trainer.kubeflow.org/trainjob", "pod", "deployment", "statefulset", "leaderworkerset.x-k8s.io/leaderworkerset",
			}}
			return c
		},
	},
	{
		name: "training-operator", webhooks: byService, secret: "kubeflow/training-operator-webhook-cert",
		args: func(s serving) []string {
			return []string{"--metrics-bind-address=" + at(s.metrics), "--health-probe-bind-address=" + at(s.health), "--webhook-server-port=" + strconv.Itoa(s.webhook)}
		},
	},
	{
		name: "trainer", webhooks: byURL,
		config: func(s serving) object {
			c := managerConfig("config.trainer.kubeflow.org/v1alpha1", s)
			delete(c, "internalCertManagement")
			delete(c["webhook"].(object), "certDir")
			c["certManagement"] = object{"enable": false}
			return c
		},
	},
	{
		name: "karpenter", health: "/healthz",
		env: func(s serving) []string {
			return []string{
				"DISABLE_LEADER_ELECTION=true", "SYSTEM_NAMESPACE=kube-system",
				"METRICS_PORT=" + strconv.Itoa(s.metrics), "HEALTH_PROBE_PORT=" + strconv.Itoa(s.health),
				"INSTANCE_TYPES_FILE_PATH=" + filepath.Join(s.bin, "karpenter.samples", "examples", "instance_types.json"),
			}
		},
	},
}

// managerConfig is what the configuration files of operators built with controller-runtime
// have in common.
func managerConfig(version string, s serving) object {
	return object{
		"apiVersion": version, "kind": "Configuration",
		"leaderElection":         object{"leaderElect": false},
		"metrics":                object{"bindAddress": "0"},
		"health":                 object{"healthProbeBindAddress": at(s.health)},
		"webhook":                object{"port": s.webhook, "host": loopback, "certDir": s.certs},
		"internalCertManagement": object{"enable": false},
	}
}

// Names are the operators that can be run.
func Names() []string {
	var out []string
	for _, o := range table {
		out = append(out, o.name)
	}
	slices.Sort(out)
	return out
}

func find(name string) (operator, bool) {
	i := slices.IndexFunc(table, func(o operator) bool { return o.name == name })
	if i < 0 {
		return operator{}, false
	}
	return table[i], true
}

package migrate

import "github.com/tangram-dev/tangram/internal/dialect"

// groupSystem is the system of an API group; empty for others, vendors' own domains among them.
func groupSystem(group string) string {
	switch group {
	case "scheduling.sigs.k8s.io": // PodGroup and ElasticQuota, which Koordinator took over
		return "koordinator"
	case "scheduling.x-k8s.io":
		return "scheduler-plugins"
	}
	if system := dialect.SystemOf(dialect.Label, group+"/"); system != "tangram" {
		return system
	}
	return ""
}

// Concerns says whether an API group belongs to one of the systems that Check knows.
func Concerns(group string) bool { return groupSystem(group) != "" }

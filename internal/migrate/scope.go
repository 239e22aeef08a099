package migrate

import (
	"strings"

	"github.com/tangram-dev/tangram/internal/dialect"
)

// scope are the domains of words that the check is about, with the system they belong to. A
// domain counts with those below it.
var scope = []struct{ domain, system string }{
	{"volcano.sh", "volcano"},
	{"kai.scheduler", "kai"}, {"run.ai", "kai"}, {"runai", "kai"},
	{"hami.io", "hami"},
	{"koordinator.sh", "koordinator"}, {"pod-group.scheduling.sigs.k8s.io", "koordinator"},
	{"kueue.x-k8s.io", "kueue"},
	{"huawei.com", "ascend"},
	{"tangram.dev", "tangram"},
}

// systemOf is the system that a word belongs to; empty when it belongs to none of them.
func systemOf(kind dialect.WordKind, name string) string {
	domain, rest, slash := strings.Cut(name, "/")
	if !slash {
		if strings.HasPrefix(name, "pod-group.scheduling.sigs.k8s.io") {
			return "koordinator"
		}
		return ""
	}
	for _, s := range scope {
		if domain == s.domain || strings.HasSuffix(domain, "."+s.domain) {
			return s.system
		}
	}
	switch {
	// Labels of nvidia.com describe nodes; HAMi's words are annotations and resources.
	case domain == "nvidia.com" && kind != dialect.Label:
		return "hami"
	case domain == "aliyun.com" && strings.HasPrefix(rest, "gpu"):
		return "cgpu"
	case name == "scheduling.k8s.io/group-name":
		return "volcano"
	}
	return ""
}

// groupSystem is the system of an API group; empty for others.
func groupSystem(group string) string {
	switch group {
	case "scheduling.sigs.k8s.io": // PodGroup and ElasticQuota, which Koordinator took over
		return "koordinator"
	case "scheduling.x-k8s.io":
		return "scheduler-plugins"
	case "":
		return ""
	}
	for _, s := range scope {
		if s.system != "tangram" && (group == s.domain || strings.HasSuffix(group, "."+s.domain)) {
			return s.system
		}
	}
	return ""
}

// Concerns says whether an API group belongs to one of the systems that Check knows.
func Concerns(group string) bool { return groupSystem(group) != "" }

package archtest

import "slices"

// Row says what the Go files of one folder may import.
//
// An import is written as in a go command: "./core/model" is ours,
// "./core/..." is ours with all below, "k8s.io/..." is foreign with all below,
// "std" is the whole standard library, "math/bits" one package of it.
type Row struct {
	Folder string   // relative to the root; with "/..." it covers what is below
	May    []string // what every file may import
	Tests  []string // what _test.go files may import besides
	Pure   bool     // no clock, goroutine, channel, global state: see pure.go
	Why    string   // the reason, printed with a complaint
}

// Table is the dependency rule. Of the rows that cover a folder the longest
// counts.
func Table() []Row {
	// The standard library as far as it is a function of its arguments. "time" is
	// here for its types; pure.go forbids the rest of it.
	pure := set(nil, "cmp", "container/heap", "errors", "fmt", "hash/fnv", "iter", "maps", "math", "math/bits",
		"slices", "strconv", "strings", "time", "unique")
	std := set(nil, "std")
	kube := set(std, "k8s.io/...", "sigs.k8s.io/...")
	translator := set(kube, "./core/...", "./api/...", "./internal/dialect")
	scheduling := set(translator, "./internal/kube/metrics", "./internal/kube/watch", "./internal/kube/workload", "./internal/kube/report", "./internal/kube/scoring", "./internal/kube/claims", "./internal/kube/observe", "./internal/kube/answer", "./internal/kube/engine", "./internal/kube/binding", "./internal/version", "./internal/kube/memory", "./internal/kube/audit", "./internal/kube/access", "./internal/kube/query", "./internal/replica")
	controller := set(translator, "./internal/kube/controller/...")
	client := set(kube, "./api/...", "./config", "go.yaml.in/yaml/...", "github.com/spf13/cobra")
	whole := set(kube, "k8s.io/kubernetes/...", "./api/...", "./config", "./examples", "./core/...", "./internal/...", "./lab/...", "github.com/spf13/...")

	// What tests may import besides. Core's tests may show a package at work with
	// those that build on it; that is no dependency of the code.
	tests := set(std, "pgregory.net/rapid", "github.com/google/go-cmp/...", "github.com/cockroachdb/datadriven")
	coreTests := set(tests, "./core/...", "./test/coretest")

	return []Row{
		// Core: each package may import those above it, so there is one reading order.
		{Folder: "core/model", May: pure, Tests: coreTests, Pure: true,
			Why: "plain values that all packages share"},
		{Folder: "core/explain", May: set(pure, "./core/model"), Tests: coreTests, Pure: true,
			Why: "reasons are data about the model"},
		{Folder: "core/topology", May: set(pure, "./core/model", "./core/explain"), Tests: coreTests, Pure: true,
			Why: "links and domains, independent of which pod holds a device"},
		{Folder: "core/mig", May: set(pure, "./core/model"), Tests: coreTests, Pure: true,
			Why: "how one GPU can be cut; who holds the cuts is the ledger's business"},
		{Folder: "core/pack", May: set(pure, "./core/model"), Tests: coreTests, Pure: true,
			Why: "mathematics of packing over plain shapes; the caller keeps the state"},
		{Folder: "core/measure", May: set(pure, "./core/model", "./core/pack"), Tests: coreTests, Pure: true,
			Why: "figures for people, from values that others keep"},
		{Folder: "core/arbiter", May: set(pure, "./core/model", "./core/explain"), Tests: coreTests, Pure: true,
			Why: "who goes next, over sums of resources; where anything fits is not its business"},
		{Folder: "core/ledger", May: set(pure, "./core/model", "./core/explain", "./core/topology", "./core/mig"), Tests: coreTests, Pure: true,
			Why: "who holds what; it knows no objective"},
		{Folder: "core/score", May: set(pure, "./core/model", "./core/explain", "./core/topology", "./core/ledger"), Tests: coreTests, Pure: true,
			Why: "objectives over a ledger's view"},
		{Folder: "core/place", May: set(pure, "./core/model", "./core/explain", "./core/topology", "./core/ledger", "./core/score"), Tests: coreTests, Pure: true,
			Why: "decides with all of the above"},
		{Folder: "core/planner", May: set(pure, "./core/model", "./core/explain", "./core/topology", "./core/mig", "./core/pack", "./core/ledger", "./core/score", "./core/place"), Tests: coreTests, Pure: true,
			Why: "the decision: where a request goes"},
		{Folder: "core/gang", May: set(pure, "./core/model", "./core/explain", "./core/topology", "./core/ledger", "./core/score", "./core/place", "./core/planner"), Tests: coreTests, Pure: true,
			Why: "plans of several holders that go together"},
		{Folder: "core/memo", May: set(pure, "./core/model", "./core/explain", "./core/arbiter"), Tests: coreTests, Pure: true,
			Why: "what is known to fail, and until when"},
		{Folder: "core/cluster", May: set(pure, "./core/model", "./core/explain", "./core/topology", "./core/ledger", "./core/score", "./core/place", "./core/planner", "./core/arbiter", "./core/gang", "./core/memo"), Tests: coreTests, Pure: true,
			Why: "nodes, queues and gangs: the only writer of the ledger and of the tree of queues"},
		{Folder: "core/ground", May: set(pure, "./core/model", "./core/place", "./core/cluster"), Tests: coreTests, Pure: true,
			Why: "on which nodes a search is made"},
		{Folder: "core/reserve", May: set(pure, "./core/model", "./core/explain", "./core/arbiter", "./core/gang", "./core/memo", "./core/cluster", "./core/ground"), Tests: coreTests, Pure: true,
			Why: "nodes kept for gangs"},
		{Folder: "core/release", May: set(pure, "./core/model", "./core/place", "./core/gang", "./core/memo", "./core/cluster"), Tests: coreTests, Pure: true,
			Why: "the way from a plan to a Binding"},
		{Folder: "core/preempt", May: set(pure, "./core/model", "./core/place", "./core/arbiter", "./core/gang", "./core/memo", "./core/cluster", "./core/ground", "./core/reserve", "./core/release"), Tests: coreTests, Pure: true,
			Why: "which members make room for a gang"},
		{Folder: "core/answer", May: set(pure, "./core/model", "./core/explain", "./core/topology", "./core/ledger", "./core/score", "./core/place", "./core/planner", "./core/arbiter", "./core/gang", "./core/pack", "./core/measure", "./core/memo", "./core/cluster", "./core/reserve", "./core/release", "./core/preempt"), Tests: coreTests, Pure: true,
			Why: "reads the parts; it owns nothing"},
		{Folder: "core/engine", May: set(pure, "./core/model", "./core/explain", "./core/ledger", "./core/place", "./core/planner", "./core/arbiter", "./core/gang", "./core/memo", "./core/cluster", "./core/reserve", "./core/release", "./core/preempt", "./core/answer"), Tests: coreTests, Pure: true,
			Why: "the order of a step: who starts now and where, on one state"},
		{Folder: "core/replay", May: set(pure, "bufio", "encoding/json", "io", "./core/model", "./core/explain", "./core/ledger", "./core/planner", "./core/arbiter", "./core/cluster", "./core/engine"), Tests: set(coreTests, "bytes", "encoding/json", "go/..."), Pure: true,
			Why: "what an engine was told and decided, as text and back"},
		{Folder: "core/stories", May: nil, Tests: coreTests,
			Why: "core's behaviour as text, in tests only"},
		{Folder: "core/state", May: set(pure, "bytes", "encoding/json", "io", "./core/model", "./core/pack", "./core/arbiter", "./core/planner", "./core/engine"), Tests: coreTests, Pure: true,
			Why: "what was learned, as text and back; where it is kept is for the caller"},
		{Folder: "core/health", May: pure, Tests: coreTests, Pure: true,
			Why: "what becomes of a device, from what is known of it and the time"},
		{Folder: "core/recovery", May: set(pure, "./core/health"), Tests: set(coreTests, "flag"), Pure: true,
			Why: "what is done about sick nodes and devices, from what is known of them and the time"},

		// API: what other programs import, so it drags in as little as possible.
		{Folder: "api/names", May: nil, Tests: tests,
			Why: "names only: every package may import it"},
		{Folder: "api/record", May: set(std, "./api/names"), Tests: tests,
			Why: "a device plugin or agent decodes records without Kubernetes libraries"},
		{Folder: "api/query", May: std, Tests: tests,
			Why: "what the scheduler answers, as types"},
		{Folder: "api/demand", May: std, Tests: tests,
			Why: "what scheduler and controller say to each other about autoscalers"},
		{Folder: "api/nodelabels", May: set(std, "k8s.io/apimachinery/..."), Tests: tests,
			Why: "how labels are spelt, for all who write them"},
		{Folder: "api/v1alpha1", May: set(std, "./api/names", "k8s.io/apimachinery/..."), Tests: set(kube, "./api/...", "./config", "./internal/agent/device", "./internal/agent/publish", "./internal/kube/inventory"),
			Why: "API types need API machinery and nothing else"},

		// Adapters: each translates between core and one outside world; siblings do
		// not know each other.
		{Folder: "internal/dialect", May: set(std, "./core/...", "./api/...", "k8s.io/api/...", "k8s.io/apimachinery/...", "k8s.io/component-helpers/resource"), Tests: set(tests, "sigs.k8s.io/yaml"),
			Why: "turns pod fields into core requests; talks to no cluster"},
		// The scheduler's middle: each may import those above it, so a pod's way through
		// them never goes back.
		{Folder: "internal/kube/watch", May: translator, Tests: coreTests,
			Why: "follows objects that only some clusters have; what they mean is for others to say"},
		{Folder: "internal/metrictable", May: std, Tests: tests,
			Why: "how metrics are described, whatever library makes them"},
		{Folder: "internal/kube/metrics", May: set(kube, "./core/...", "./internal/metrictable"), Tests: coreTests,
			Why: "names of metrics, and nothing about how decisions are made"},
		{Folder: "internal/kube/dra", May: translator, Tests: coreTests,
			Why: "ResourceSlice, ResourceClaim, DeviceClass in, core's devices, requests and holds out"},
		{Folder: "internal/kube/inventory", May: set(translator, "./internal/kube/watch"), Tests: coreTests,
			Why: "Node, GPUNode, NodeResourceTopology in, core's node out"},
		{Folder: "internal/kube/workload", May: set(translator, "./internal/kube/watch", "./internal/kube/dra"), Tests: coreTests,
			Why: "Pod, PodGroup, Job, ... in, core's gang out; it knows no node"},
		{Folder: "internal/kube/scoring", May: set(translator, "./internal/kube/workload"), Tests: coreTests,
			Why: "arguments in, checked settings out, for the plugin and the extender"},
		{Folder: "internal/kube/report", May: translator, Tests: coreTests,
			Why: "reasons in, what people are told out; it writes nothing"},
		{Folder: "internal/kube/claims", May: set(translator, "./internal/kube/dra", "./internal/kube/workload"), Tests: coreTests,
			Why: "events about ResourceClaims in, pods to be read again and holds out; it never calls the engine"},
		{Folder: "internal/kube/contest", May: set(translator, "./internal/kube/report"), Tests: coreTests,
			Why: "records that contradict each other in, what to report and which pods to evict out"},
		{Folder: "internal/kube/demand", May: set(translator, "./internal/kube/workload", "./internal/kube/report"), Tests: coreTests,
			Why: "reasons in, what autoscalers are asked for out"},
		{Folder: "internal/kube/observe", May: set(translator, "./internal/kube/metrics", "./internal/kube/workload"), Tests: coreTests,
			Why: "what happened, for metrics and the timeline; no decision reads it"},
		{Folder: "internal/kube/answer", May: set(translator, "./internal/kube/metrics", "./internal/kube/workload", "./internal/kube/report", "./internal/kube/claims", "./internal/kube/contest", "./internal/kube/demand", "./internal/kube/observe"), Tests: coreTests,
			Why: "answers to questions, over one reader of the engine's state; it changes nothing"},
		{Folder: "internal/kube/engine", May: set(translator, "./internal/kube/metrics", "./internal/kube/watch", "./internal/kube/dra", "./internal/kube/inventory", "./internal/kube/workload", "./internal/kube/report", "./internal/kube/claims", "./internal/kube/contest", "./internal/kube/demand", "./internal/kube/observe", "./internal/kube/answer"), Tests: coreTests,
			Why: "core's engine behind one lock; kube-scheduler's framework is for the plugins"},
		{Folder: "internal/kube/memory", May: translator, Tests: coreTests,
			Why: "where what was learned is kept; what it means is core's"},
		{Folder: "internal/kube/audit", May: set(translator, "./internal/metrictable"), Tests: coreTests,
			Why: "decisions in, lines of JSON out; it knows no engine"},
		{Folder: "internal/kube/binding", May: set(translator, "./internal/kube/engine"), Tests: coreTests,
			Why: "what the engine gave a pod, as a Binding"},
		{Folder: "internal/replica", May: set(translator, "./internal/kube/engine", "./internal/kube/answer", "./internal/kube/workload", "./internal/kube/controller/blueprint", "./internal/kube/controller/lifecycle", "volcano.sh/apis/...", "go.yaml.in/yaml/..."), Tests: coreTests,
			Why: "a copy of the scheduler's state, stepped without a cluster"},
		{Folder: "internal/kube/plugin", May: set(scheduling, "k8s.io/kubernetes/...", "github.com/spf13/cobra"), Tests: coreTests,
			Why: "implements the scheduler framework and extends its command, which live in k8s.io/kubernetes"},
		{Folder: "internal/kube/extender", May: set(scheduling, "./internal/logging", "github.com/spf13/cobra"), Tests: coreTests,
			Why: "serves the extender protocol and is a command of its own"},
		{Folder: "internal/kube/access", May: kube, Tests: tests,
			Why: "who may read what our programs serve; the API server decides"},
		{Folder: "internal/kube/query", May: set(kube, "./api/...", "./internal/kube/access", "./internal/endpoint"), Tests: coreTests,
			Why: "who may ask and see what; what is answered others know"},
		{Folder: "internal/kube/recovery", May: set(translator, "./internal/metrictable", "volcano.sh/apis/...", "github.com/prometheus/..."), Tests: coreTests,
			Why: "shows core's recovery the API and does what it says"},
		{Folder: "internal/kube/autoscale", May: set(kube, "./api/..."), Tests: tests,
			Why: "carries out what the scheduler asks of autoscalers; it decides nothing"},
		{Folder: "internal/kube/controller/...", May: set(controller, "./internal/endpoint", "./internal/web", "./internal/logging", "./internal/version", "./internal/version/metric", "./internal/metrictable", "./internal/kube/access", "./internal/kube/autoscale", "./internal/kube/recovery", "volcano.sh/apis/...", "github.com/prometheus/...", "github.com/spf13/cobra"), Tests: coreTests,
			Why: "serves Volcano's kinds, whose types live in volcano.sh/apis"},
		{Folder: "internal/kube/controller/lifecycle", May: set(std, "k8s.io/api/...", "k8s.io/apimachinery/...", "volcano.sh/apis/..."), Tests: coreTests, Pure: true,
			Why: "decides about a job from values alone, so that every decision can be replayed"},
		{Folder: "internal/ask", May: set(kube, "./api/names", "./api/query", "github.com/spf13/cobra"), Tests: set(tests, "./test/asktest"),
			Why: "asks the scheduler as any client would; the answers are not its own"},
		{Folder: "internal/migrate", May: set(translator, "./config", "./internal/strictyaml"), Tests: set(tests, "volcano.sh/apis/...", "./internal/kube/controller/blueprint"),
			Why: "compares words and settings of others with dialect's; it talks to no cluster"},
		{Folder: "internal/diagnose", May: translator, Tests: tests,
			Why: "what is wrong with a node, from objects as values"},
		{Folder: "internal/terminal", May: set(std, "golang.org/x/term", "sigs.k8s.io/yaml"), Tests: set(tests, "golang.org/x/sys/unix"),
			Why: "how text reaches people; what it says is for others"},
		{Folder: "internal/cli/see", May: set(client, "./internal/ask", "./internal/terminal"), Tests: set(tests, "./test/asktest"),
			Why: "questions to the scheduler and their answers as tables; it computes nothing"},
		{Folder: "internal/cli", May: set(client, "./core/replay", "./internal/version", "./internal/ask", "./internal/cli/see", "./internal/replica", "./internal/terminal", "./internal/web", "./internal/migrate", "./internal/diagnose"), Tests: tests,
			Why: "what people type; it composes, and decides nothing"},
		// The node agent: parts that know the hardware through device alone and not each
		// other; the root wires them.
		{Folder: "internal/endpoint", May: std, Tests: tests,
			Why: "what any of our programs answers over HTTP"},
		{Folder: "internal/web", May: set(std, "./api/query"), Tests: tests,
			Why: "shows what the scheduler answers, and passes questions on; where the leader is it is told"},
		{Folder: "internal/logging", May: set(kube, "github.com/go-logr/logr", "github.com/spf13/cobra"), Tests: tests,
			Why: "how any of our programs logs"},
		{Folder: "internal/version", May: std, Tests: tests,
			Why: "which build a program is; every program says it"},
		{Folder: "internal/version/metric", May: set(std, "./internal/metrictable", "./internal/version", "github.com/prometheus/..."), Tests: tests,
			Why: "the same for Prometheus, apart for programs without metrics"},
		{Folder: "internal/agent/device", May: std, Tests: tests,
			Why: "the values in which the agent describes hardware"},
		{Folder: "internal/agent/nvml", May: set(std, "./internal/agent/device", "github.com/NVIDIA/...", "tags.cncf.io/container-device-interface/..."), Tests: set(tests, "github.com/NVIDIA/..."),
			Why: "the only one that calls the driver"},
		{Folder: "internal/strictyaml", May: set(std, "go.yaml.in/yaml/..."), Tests: set(tests, "go.yaml.in/yaml/..."),
			Why: "how files that people write are read, whatever is in them"},
		{Folder: "internal/agent/config", May: set(std, "./core/health", "./internal/strictyaml", "go.yaml.in/yaml/..."), Tests: tests,
			Why: "settings in, checked settings out"},
		{Folder: "internal/agent/publish", May: set(kube, "./api/...", "./core/health", "./internal/agent/device"), Tests: tests,
			Why: "what the agent knows, as GPUNode and labels"},
		{Folder: "internal/agent/dra", May: set(kube, "./core/health", "./internal/agent/device", "./internal/agent/kubeapi", "./internal/agent/sharing/atomicfile", "./internal/agent/socket", "google.golang.org/grpc/...", "google.golang.org/grpc"), Tests: tests,
			Why: "the agent as a DRA driver: slices out, claims in"},
		{Folder: "internal/agent/socket", May: set(kube, "google.golang.org/grpc"), Tests: tests,
			Why: "servers in kubelet's folders, whatever they answer"},
		{Folder: "internal/agent/kubeapi", May: set(kube), Tests: tests,
			Why: "a client for what an agent reads and writes"},
		{Folder: "internal/agent/records", May: set(kube, "./api/...", "./internal/agent/device", "./internal/agent/kubeapi", "google.golang.org/grpc/...", "google.golang.org/grpc"), Tests: set(tests, "./internal/dialect"),
			Why: "who should get what, and who got it; it serves nothing"},
		{Folder: "internal/agent/grant", May: set(kube, "./api/...", "./internal/agent/device", "./internal/agent/records"), Tests: tests,
			Why: "what kubelet is answered: it knows who holds what, and neither protocol nor hardware"},
		{Folder: "internal/agent/plugin", May: set(kube, "./api/...", "./internal/agent/device", "./internal/agent/socket", "google.golang.org/grpc/...", "google.golang.org/grpc"), Tests: tests,
			Why: "kubelet's protocol; what an answer holds is decided elsewhere"},
		{Folder: "internal/agent/sharing", May: set(std, "./internal/agent/device", "./internal/agent/sharing/..."), Tests: tests,
			Why: "what makes a share of a device real; the ways of sharing do not know each other"},
		{Folder: "internal/agent/sharing/atomicfile", May: std, Tests: tests,
			Why: "files that are whole or not there"},
		{Folder: "internal/agent/sharing/cdi", May: set(std, "./internal/agent/device", "./internal/agent/sharing/atomicfile", "tags.cncf.io/container-device-interface/..."), Tests: tests,
			Why: "the only one that knows CDI's format"},
		{Folder: "internal/agent/sharing/hami", May: set(std, "./internal/agent/device"), Tests: tests,
			Why: "a library's contract: variables and mounts"},
		{Folder: "internal/agent/sharing/mig", May: set(std, "./internal/agent/device", "./internal/agent/sharing/atomicfile"), Tests: tests,
			Why: "cuts devices through a back end"},
		{Folder: "internal/agent/sharing/mps", May: set(std, "./internal/agent/device"), Tests: tests,
			Why: "supervises a program; it talks to no driver"},
		{Folder: "internal/agent/health", May: set(kube, "./core/health", "./internal/agent/device"), Tests: tests,
			Why: "feeds events and samples to core's state machine"},
		{Folder: "internal/agent/export", May: set(std, "./core/health", "./internal/agent/device", "./internal/metrictable", "github.com/prometheus/..."), Tests: tests,
			Why: "telemetry under DCGM's names"},
		{Folder: "internal/agent", May: set(kube, "./api/...", "./core/health", "./internal/agent/...", "./internal/endpoint", "./internal/logging", "./internal/version", "./internal/version/metric", "github.com/prometheus/...", "github.com/spf13/...", "google.golang.org/grpc/...", "google.golang.org/grpc"), Tests: tests,
			Why: "wires the parts of the agent"},
		// The laboratory: what measures and breaks clusters on one machine. It may import the
		// product; no row above lets the product import it.
		{Folder: "lab/fleet", May: set(kube, "./api/...", "./internal/strictyaml", "go.yaml.in/yaml/..."), Tests: tests,
			Why: "describes simulated nodes; the local cluster and the simulated agent read it"},
		{Folder: "lab/simulated", May: set(kube, "./api/...", "./internal/agent/device", "./internal/agent/kubeapi", "./lab/fleet", "github.com/spf13/pflag"), Tests: tests,
			Why: "hardware from a file, for clusters without any"},
		{Folder: "lab/local", May: set(client, "./lab/fleet", "golang.org/x/sync/errgroup"), Tests: tests,
			Why: "runs a control plane as any client would; it must not know how Tangram decides"},
		{Folder: "lab/podrun", May: set(client, "./lab/local"), Tests: tests,
			Why: "runs pods as the API server has them; what they are is written in the chart"},
		{Folder: "lab/operators", May: set(client, "./lab/local"), Tests: tests,
			Why: "runs other projects' operators beside a local cluster; what they do it must not know"},
		{Folder: "lab/bench", May: set(client, "./lab/local"), Tests: tests,
			Why: "measures all schedulers from outside, ours like the others"},
		{Folder: "lab/drill", May: set(client, "./lab/fleet", "./lab/local", "golang.org/x/sync/errgroup"), Tests: tests,
			Why: "breaks a cluster and measures from outside; what the controller decides it must not know"},
		{Folder: "lab/sim", May: set(std, "./core/...", "github.com/spf13/cobra"), Tests: tests,
			Why: "replays traces on core; no Kubernetes"},
		{Folder: "lab/starts", May: set(kube, "./api/names", "./core/engine", "./internal/kube/engine", "./internal/replica", "./lab/sim", "github.com/spf13/cobra"), Tests: tests,
			Why: "replays traces on a copy of the scheduler"},
		{Folder: "lab/cli", May: set(client, "./lab/...", "./internal/ask", "./internal/cli/see", "./internal/terminal", "./internal/web", "./examples", "./monitoring"), Tests: set(tests, "./internal/cli"),
			Why: "the laboratory's commands; it composes, and decides nothing"},

		{Folder: "test/archtest", May: std, Tests: set(tests, "sigs.k8s.io/yaml"),
			Why: "must run without a network"},
		{Folder: "config", May: std, Tests: set(kube, "./api/..."),
			Why: "embeds the default files"},
		{Folder: "examples", May: std, Tests: set(kube, "./api/..."),
			Why: "embeds the sample manifests"},

		{Folder: "monitoring", May: std, Tests: tests,
			Why: "embeds rules and dashboards"},
		{Folder: "hack/monitoring", May: set(std, "sigs.k8s.io/yaml"), Tests: tests,
			Why: "a step of make generate"},
		{Folder: "hack/docs", May: set(std, "sigs.k8s.io/yaml", "github.com/spf13/cobra", "./core/explain", "./internal/...", "./lab/cli"), Tests: tests,
			Why: "a step of make generate: it reads what pages of docs/reference describe"},
		{Folder: "hack/volcanocrd", May: set(std, "sigs.k8s.io/yaml"), Tests: tests,
			Why: "a step of make generate"},

		{Folder: "hack/testrun", May: std, Tests: tests,
			Why: "runs the tests, before anything else is built"},
		{Folder: "hack/sbom", May: std, Tests: tests,
			Why: "a step of make release"},

		// Ends: no other folder imports them, but for tests that import test/asktest.
		{Folder: "cmd/...", May: whole, Tests: tests,
			Why: "main functions: flags to configuration to run"},
		{Folder: "test/chaos/checker", May: set(std, "k8s.io/api/..."), Tests: std,
			Why: "a judge from outside: it must not share code with what it judges"},
		{Folder: "test/asktest", May: set(kube, "./api/query"),
			Why: "a cluster that gives prepared answers; tests of clients import it"},
		{Folder: "test/devicemanager", May: set(whole, append(tests, "google.golang.org/grpc", "github.com/google/cadvisor/...")...),
			Why: "kubelet's own device manager, against the agent"},
		{Folder: "test/coretest", May: set(tests, "./core/..."), Tests: tests,
			Why: "builders and generators for the tests of core"},
		{Folder: "test/...", May: set(whole, append(tests, "./test/...", "volcano.sh/apis/...", "go.yaml.in/yaml/...")...),
			Why: "tests of the whole"},
		{Folder: "test/web", May: set(whole, append(tests, "./test/...", "github.com/chromedp/...")...),
			Why: "tests of the page in a browser"},
		{Folder: "test/monitoring", May: set(whole, append(tests, "./monitoring", "./test/await", "./test/cluster")...),
			Why: "rules and dashboards, against Prometheus and what our programs export"},
		{Folder: "test/node", May: set(whole, append(tests, "./test/node/...", "google.golang.org/grpc/...", "google.golang.org/grpc", "golang.org/x/sys/unix")...),
			Why: "tests on a real kubelet: Linux namespaces, and kubelet's own protocols"},
		{Folder: "test/agent", May: set(whole, append(tests, "./test/await", "./test/cluster", "google.golang.org/grpc/...", "google.golang.org/grpc")...),
			Why: "tests of the agent in trouble: kubelet's own protocols"},
		{Folder: "test/node/view", May: std,
			Why: "is in a container without anything else"},
		{Folder: "test/node/holder", May: std,
			Why: "the first process of a namespace"},
		{Folder: "test/node/inspect", May: set(std, "./test/node/view"),
			Why: "is in a container without anything else"},
	}
}

// set is a list with some more at its end, sharing no memory.
func set(list []string, more ...string) []string { return slices.Concat(list, more) }

// Guarded are packages that a wider pattern does not let in: a row must name
// them, or a folder above them, in full.
func Guarded() []Guard {
	return []Guard{
		{"k8s.io/kubernetes", "it is no library: versions break it at will, so one package holds it"},
	}
}

// Guard is one guarded package, with all below it, and the reason.
type Guard struct{ Package, Why string }

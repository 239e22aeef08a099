package query

// Where questions are asked. PathWhatIf takes a POST, all others a GET.
const (
	Prefix       = "/query/v1/"
	PathFleet    = Prefix + "fleet"
	PathNodes    = Prefix + "nodes"
	PathQueues   = Prefix + "queues"
	PathHistory  = Prefix + "history"
	PathGangs    = Prefix + "gangs"
	PathWhy      = Prefix + "why"
	PathExplain  = Prefix + "explain"
	PathTimeline = Prefix + "timeline"
	PathWhatIf   = Prefix + "whatif"
	PathDump     = Prefix + "dump"
	PathUsage    = Prefix + "usage"
)

// Parameters of questions.
const (
	// ParamNamespace and ParamName name an object, ParamKind its kind ("Pod", "Gang", "Job",
	// "RayCluster", ...); empty: whatever has the name, a pod first.
	ParamNamespace = "namespace"
	ParamName      = "name"
	ParamKind      = "kind"
	// ParamSince asks for what changed after a version (nodes, timeline).
	ParamSince = "since"
	// ParamPhase and ParamQueue choose gangs.
	ParamPhase = "phase"
	ParamQueue = "queue"
	// ParamBy says what usage is summed by: words of UsageBy, with commas between; empty: namespace.
	ParamBy = "by"
	// ParamLimit bounds a list, ParamContinue goes on where one ended.
	ParamLimit    = "limit"
	ParamContinue = "continue"
)

// Bounds of questions: a larger one is refused.
const (
	MaxBody  = 1 << 20
	MaxQuery = 4 << 10
	MaxLimit = 10_000
)

// AnnotationEndpoint of the scheduler's Lease says where its leader answers: an Endpoint.
const AnnotationEndpoint = "tangram.dev/query-endpoint"

// Endpoint is where the leader answers, and how to know that it is it.
type Endpoint struct {
	// Address is host:port.
	Address string `json:"address"`
	// CA is the PEM of the certificate that the server's is signed by, or that it is.
	CA string `json:"ca"`
	// ServerName is the name that the certificate is checked for.
	ServerName string `json:"serverName"`
	// Pod is the leader's namespace/name, for port forwarding; empty outside a cluster.
	Pod string `json:"pod,omitempty"`
	// Holder is the Lease's holder that wrote this: an answer of another is of the past.
	Holder string `json:"holder"`
}

// Error is the body of every answer that is not 200.
type Error struct {
	// Status is the HTTP status, Reason a stable word (NotFound, Forbidden, NotLeader, Invalid, TooLarge, Busy;
	// Unreachable from a proxy), Message for people; Field is the parameter or field that is wrong.
	Status  int    `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Field   string `json:"field,omitempty"`
}

// Error implements error.
func (e *Error) Error() string {
	if e.Field != "" {
		return e.Field + ": " + e.Message
	}
	return e.Message
}

package extender

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	v1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/binding"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

const maxBody = 256 << 20 // bounds a request: 5,000 whole Node objects fit, a runaway client does not

// Server answers kube-scheduler's requests.
type Server struct {
	Engine  *kubeengine.Engine
	Pods    corelisters.PodLister
	Writer  binding.Writer
	Profile workload.Profile // what the configuration says about pods: weights, placements, tenants
}

// Handler serves the protocol's four verbs to clients that are let in, and a health check
// to all: kubelet has no certificate.
func (s *Server) Handler(a *access) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /filter", a.check(serve(s.filter)))
	mux.Handle("POST /prioritize", a.check(serve(s.prioritize)))
	mux.Handle("POST /bind", a.check(serve(s.bind)))
	mux.Handle("POST /preempt", a.check(serve(s.preempt)))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	return mux
}

// serve decodes a request and encodes the answer. An invalid request is answered with
// 400 and a message, which the scheduler shows on the pod.
func serve[Q, A any](answer func(context.Context, *Q) (A, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q Q
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&q); err != nil {
			http.Error(w, "request body: "+err.Error(), http.StatusBadRequest)
			return
		}
		a, err := answer(r.Context(), &q)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(a); err != nil {
			klog.FromContext(r.Context()).Error(err, "Writing the response failed", "path", r.URL.Path)
		}
	}
}

var errNoPod = errors.New("pod: missing")

// request is what a pod asks for; nil when it asks for no GPU. GPUs by ResourceClaim are
// refused, naming the field: kube-scheduler allocates claims by itself, and does not ask an
// extender which device.
func (s *Server) request(pod *v1.Pod) (*model.Request, error) {
	field, err := s.Engine.Claims().ClaimsGPUs(pod)
	switch {
	case err != nil:
		return nil, err
	case field != "":
		return nil, fmt.Errorf("%s: asks for GPUs by ResourceClaim, which gpu-extender does not place: use an extended resource such as nvidia.com/gpu, or gpu-scheduler", field)
	}
	return s.Engine.RequestIn(pod, s.Profile)
}

// candidates are the names of the nodes asked about, in either of the forms the
// protocol has.
func candidates(args *extenderv1.ExtenderArgs) []string {
	if args.NodeNames != nil {
		return *args.NodeNames
	}
	var out []string
	if args.Nodes != nil {
		for i := range args.Nodes.Items {
			out = append(out, args.Nodes.Items[i].Name)
		}
	}
	return out
}

// filter says which of the nodes can take the pod, and why the others cannot.
func (s *Server) filter(_ context.Context, args *extenderv1.ExtenderArgs) (*extenderv1.ExtenderFilterResult, error) {
	if args.Pod == nil {
		return nil, errNoPod
	}
	r, err := s.request(args.Pod)
	if err != nil {
		return &extenderv1.ExtenderFilterResult{Error: err.Error()}, nil
	}
	out := &extenderv1.ExtenderFilterResult{FailedNodes: extenderv1.FailedNodesMap{}, FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{}}
	fits := map[string]bool{}
	passed := []string{}
	for _, name := range candidates(args) {
		if r != nil {
			if refusal := s.Engine.Fit(r, model.NodeID(name), nil); refusal != nil {
				failed := out.FailedNodes
				if refusal.Code.Permanent() {
					failed = out.FailedAndUnresolvableNodes
				}
				failed[name] = "node(s) had " + refusal.String()
				continue
			}
		}
		fits[name] = true
		passed = append(passed, name)
	}
	if args.NodeNames != nil {
		out.NodeNames = &passed
		return out, nil
	}
	out.Nodes = &v1.NodeList{}
	if args.Nodes != nil {
		for _, n := range args.Nodes.Items {
			if fits[n.Name] {
				out.Nodes.Items = append(out.Nodes.Items, n)
			}
		}
	}
	return out, nil
}

// prioritize scores nodes on the protocol's scale of 0 to 10.
func (s *Server) prioritize(_ context.Context, args *extenderv1.ExtenderArgs) (extenderv1.HostPriorityList, error) {
	if args.Pod == nil {
		return nil, errNoPod
	}
	r, err := s.request(args.Pod)
	if err != nil {
		return nil, err
	}
	out := extenderv1.HostPriorityList{}
	for _, name := range candidates(args) {
		total := 0
		if r != nil {
			total = s.Engine.Rate(r, s.Profile.Weights, model.NodeID(name), "").Total
		}
		out = append(out, extenderv1.HostPriority{Host: name, Score: int64(total) * extenderv1.MaxExtenderPriority / score.Scale})
	}
	return out, nil
}

// bind chooses devices, assumes them and writes the Binding; if any step fails the
// devices are released and the scheduler retries the pod.
func (s *Server) bind(ctx context.Context, args *extenderv1.ExtenderBindingArgs) (*extenderv1.ExtenderBindingResult, error) {
	fail := func(err error) (*extenderv1.ExtenderBindingResult, error) {
		return &extenderv1.ExtenderBindingResult{Error: err.Error()}, nil
	}
	pod, err := s.Pods.Pods(args.PodNamespace).Get(args.PodName)
	if err != nil {
		return fail(err)
	}
	if pod.UID != args.PodUID {
		return fail(fmt.Errorf("pod %s/%s: is another one now (uid %s)", args.PodNamespace, args.PodName, pod.UID))
	}
	r, err := s.request(pod)
	if err != nil {
		return fail(err)
	}
	var annotations map[string]string
	if r != nil {
		given, refusal := s.Engine.Assume(pod, r, model.NodeID(args.Node))
		if refusal != nil {
			return fail(fmt.Errorf("node %s has %s", args.Node, refusal))
		}
		if annotations, err = binding.Annotations(pod, &kubeengine.Cycle{Release: given, Request: r}); err != nil {
			s.Engine.Unassume(pod)
			return fail(err)
		}
	}
	// The scheduler may close the connection; whether the pod was bound must be known
	// all the same.
	if err := s.Writer.Write(context.WithoutCancel(ctx), pod, args.Node, annotations); err != nil {
		s.Engine.Unassume(pod)
		return fail(err)
	}
	return &extenderv1.ExtenderBindingResult{}, nil
}

// preempt completes the scheduler's victims: the scheduler counts resources, not
// devices, so its set may be too small, and it knows priorities alone. Nodes are left out on
// which no eviction helps, or where the rules of preemption protect a victim: gangs that would
// go on in part, other queues within their share, protected namespaces.
func (s *Server) preempt(_ context.Context, args *extenderv1.ExtenderPreemptionArgs) (*extenderv1.ExtenderPreemptionResult, error) {
	if args.Pod == nil {
		return nil, errNoPod
	}
	r, err := s.request(args.Pod)
	if err != nil {
		return nil, err
	}
	victims := map[string]*extenderv1.MetaVictims{}
	for node, v := range args.NodeNameToMetaVictims {
		victims[node] = &extenderv1.MetaVictims{Pods: v.Pods, NumPDBViolations: v.NumPDBViolations}
	}
	for node, v := range args.NodeNameToVictims {
		meta := &extenderv1.MetaVictims{NumPDBViolations: v.NumPDBViolations}
		for _, p := range v.Pods {
			meta.Pods = append(meta.Pods, &extenderv1.MetaPod{UID: string(p.UID)})
		}
		victims[node] = meta
	}
	out := &extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{}}
	for node, v := range victims {
		if r != nil {
			var leaving []model.HolderID
			for _, p := range v.Pods {
				leaving = append(leaving, dialect.HoldersOf(p.UID)...)
			}
			more, ok := s.Engine.Victims(args.Pod, r, model.NodeID(node), leaving)
			if !ok {
				continue
			}
			for _, h := range more {
				uid := dialect.UIDOf(h)
				if !slices.ContainsFunc(v.Pods, func(p *extenderv1.MetaPod) bool { return p.UID == uid }) {
					v.Pods = append(v.Pods, &extenderv1.MetaPod{UID: uid})
				}
			}
		}
		if len(v.Pods) > 0 { // the protocol has no preemption without victims
			out.NodeNameToMetaVictims[node] = v
		}
	}
	return out, nil
}

package query

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	apiquery "github.com/tangram-dev/tangram/api/query"
)

// Access says who asks and what they may do: access.Guard.
type Access interface {
	Rights
	Who(r *http.Request) user.Info
	MayGet(ctx context.Context, who user.Info, path string) (may bool, why string, err error)
}

// Options of a server.
type Options struct {
	Source Source
	Access Access
	// Copies answers whatif and dump; nil: they are not answered.
	Copies Copies
	// Leads says whether this process decides: only then are there answers. nil: it does.
	Leads func() bool
	// Holder and Version say who answers.
	Holder, Version string
	// FindPod finds pods that have ended; nil: they are said not to exist.
	FindPod FindPod
	// Limits; the zero value is DefaultLimits.
	Limits Limits
}

// Server answers questions. It is safe for concurrent use.
type Server struct {
	options Options
	source  Source
	doorman *doorman
	table   map[string]*Question
}

// New returns a server.
func New(o Options) *Server {
	if o.Limits == (Limits{}) {
		o.Limits = DefaultLimits()
	}
	s := &Server{options: o, source: o.Source, doorman: newDoorman(o.Limits), table: map[string]*Question{}}
	for _, q := range s.questions() {
		s.table[q.Path] = &q
	}
	return s
}

// Handler answers requests: 401 to who is not known, 403 to who may not get the path, 503
// where this process does not lead, 429 to who asks too much, and else the question.
func (s *Server) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		body, wrong := s.serve(w, r)
		if wrong != nil {
			body = encode(wrong)
			w.Header().Set("Content-Type", "application/json")
			switch wrong.Status {
			case http.StatusUnauthorized:
				w.Header().Set("WWW-Authenticate", "Bearer")
			case http.StatusTooManyRequests:
				w.Header().Set("Retry-After", "1")
			}
			if r.ContentLength != 0 {
				w.Header().Set("Connection", "close") // what is left of the body is not read
			}
			w.WriteHeader(wrong.Status)
			_, _ = w.Write(body)
		}
	})
}

// serve checks who asks, and answers.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) ([]byte, *apiquery.Error) {
	who := s.options.Access.Who(r)
	if who == nil {
		return nil, &apiquery.Error{Status: http.StatusUnauthorized, Reason: ReasonUnauthorized, Message: "no valid bearer token or client certificate"}
	}
	leave, ok := s.doorman.enter(who.GetName())
	if !ok {
		return nil, busy()
	}
	defer leave()
	ctx, cancel := context.WithTimeout(r.Context(), s.options.Limits.Timeout)
	defer cancel()
	q, path := s.table[r.URL.Path], r.URL.Path
	may, _, err := s.options.Access.MayGet(ctx, who, path)
	switch {
	case err != nil:
		return nil, unavailable()
	case !may: // they do not learn either what there is
		return nil, &apiquery.Error{Status: http.StatusForbidden, Reason: ReasonForbidden, Message: fmt.Sprintf("user %q may not get %s", who.GetName(), shorten(path))}
	case q == nil:
		return nil, NotFound("no such path; see docs/reference/query.md")
	case r.Method != q.Method:
		w.Header().Set("Allow", q.Method)
		return nil, &apiquery.Error{Status: http.StatusMethodNotAllowed, Reason: ReasonMethod, Message: fmt.Sprintf("%s takes a %s", path, q.Method)}
	case s.options.Leads != nil && !s.options.Leads():
		return nil, &apiquery.Error{Status: http.StatusServiceUnavailable, Reason: ReasonNotLeader, Message: "this replica does not lead; the leader's Lease says where to ask (annotation " + apiquery.AnnotationEndpoint + ")"}
	}
	request, wrong := read(q, r)
	if wrong != nil {
		return nil, wrong
	}
	kind, body, wrong := s.answer(ctx, q, newCaller(ctx, who, s.options.Access), request)
	if wrong != nil {
		return nil, wrong
	}
	write(w, r, kind, body)
	return nil, nil
}

// answer computes an answer when its turn has come. Writing it is not part of the turn: a
// caller who reads slowly holds up nobody.
func (s *Server) answer(ctx context.Context, q *Question, c *caller, r *Request) (kind string, body []byte, wrong *apiquery.Error) {
	end, ok := s.doorman.begin(ctx, c.User())
	if !ok {
		return "", nil, busy()
	}
	defer end()
	defer func() {
		if p := recover(); p != nil {
			klog.FromContext(ctx).Error(nil, "A question made the query server panic", "path", q.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			body, wrong = nil, &apiquery.Error{Status: http.StatusInternalServerError, Reason: ReasonInternal, Message: "the question could not be answered; the scheduler's log says why"}
		}
	}()
	answer, wrong := q.Answer(ctx, c, r)
	switch {
	case c.failed() != nil && ctx.Err() == nil:
		return "", nil, unavailable()
	case ctx.Err() != nil:
		return "", nil, &apiquery.Error{Status: http.StatusGatewayTimeout, Reason: ReasonTimeout, Message: "the answer took too long"}
	case wrong != nil:
		return "", nil, wrong
	}
	if b, ok := answer.(Blob); ok {
		return b.Type, b.Bytes, nil
	}
	return "application/json", encode(answer), nil
}

func busy() *apiquery.Error {
	return &apiquery.Error{Status: http.StatusTooManyRequests, Reason: ReasonBusy, Message: "too many questions at once; ask again in a second"}
}

func unavailable() *apiquery.Error {
	return &apiquery.Error{Status: http.StatusServiceUnavailable, Reason: ReasonUnavailable, Message: "the API server could not be asked what you may see"}
}

// encode writes an answer as JSON. Answers are plain values: they can always be written.
func encode(answer any) []byte {
	body, err := json.Marshal(answer)
	if err != nil {
		panic(err)
	}
	return append(body, '\n')
}

// zipFrom is from which size on answers are compressed.
const zipFrom = 1 << 10

// write sends an answer, compressed for callers who say that they can read it.
func write(w http.ResponseWriter, r *http.Request, kind string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Vary", "Accept-Encoding")
	if len(body) < zipFrom || kind != "application/json" || !acceptsGzip(r.Header.Get("Accept-Encoding")) {
		h.Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body) // a caller who is gone needs no answer
		return
	}
	h.Set("Content-Encoding", "gzip")
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is valid
	}
	_, _ = z.Write(body)
	_ = z.Close()
}

// acceptsGzip reads an Accept-Encoding header.
func acceptsGzip(header string) bool {
	for part := range strings.SplitSeq(header, ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.TrimSpace(name) == "gzip" {
			return strings.TrimSpace(weight) != "q=0"
		}
	}
	return false
}

package query

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

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
	Copies Copies // answers whatif and dump; nil: they are not answered
	// Leads says whether this process decides: only then are there answers. nil: it does.
	Leads           func() bool
	Holder, Version string  // Holder and Version say who answers
	FindPod         FindPod // FindPod finds pods that have ended; nil: they are said not to exist
	Limits          Limits  // Limits; the zero value is DefaultLimits
}

// Server answers questions. It is safe for concurrent use.
type Server struct {
	options Options
	source  Source
	doorman *doorman
	porch   *porch
	shelf   *shelf
	toll    *toll
	table   map[string]*Question
}

// New returns a server.
func New(o Options) *Server {
	if o.Limits == (Limits{}) {
		o.Limits = DefaultLimits()
	}
	s := &Server{options: o, source: o.Source, doorman: newDoorman(o.Limits), porch: newPorch(), shelf: newShelf(), toll: newToll(), table: map[string]*Question{}}
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
		if wrong := s.serve(w, r); wrong != nil {
			body := encode(wrong)
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
func (s *Server) serve(w http.ResponseWriter, r *http.Request) *apiquery.Error {
	spent := &timing{began: time.Now()}
	who, ok := s.who(r)
	if !ok {
		return busy()
	}
	if who == nil {
		return &apiquery.Error{Status: http.StatusUnauthorized, Reason: ReasonUnauthorized, Message: "no valid bearer token or client certificate"}
	}
	leave, ok := s.doorman.enter(who.GetName())
	if !ok {
		return busy()
	}
	defer leave()
	ctx, cancel := context.WithTimeout(r.Context(), s.options.Limits.Timeout)
	defer cancel()
	q, path := s.table[r.URL.Path], r.URL.Path
	asked := path
	if q == nil {
		asked = noPath // not one question to the API server for every path that a caller invents
	}
	c := newCaller(ctx, who, s.options.Access)
	c.spent, c.charge = spent, func(held time.Duration) { s.toll.charge(who.GetName(), held) }
	known := c.askAhead()
	may, _, err := s.options.Access.MayGet(ctx, who, asked)
	spent.add(&spent.access, time.Since(spent.began))
	known()
	switch {
	case err != nil:
		return unavailable()
	case !may: // they do not learn either what there is
		return &apiquery.Error{Status: http.StatusForbidden, Reason: ReasonForbidden, Message: fmt.Sprintf("user %q may not get %s", who.GetName(), shorten(path))}
	case q == nil:
		return NotFound("no such path; see docs/reference/query.md")
	case r.Method != q.Method:
		w.Header().Set("Allow", q.Method)
		return &apiquery.Error{Status: http.StatusMethodNotAllowed, Reason: ReasonMethod, Message: fmt.Sprintf("%s takes a %s", path, q.Method)}
	case s.options.Leads != nil && !s.options.Leads():
		return &apiquery.Error{Status: http.StatusServiceUnavailable, Reason: ReasonNotLeader, Message: "this replica does not lead; the leader's Lease says where to ask (annotation " + apiquery.AnnotationEndpoint + ")"}
	}
	request, wrong := read(q, r)
	if wrong != nil {
		return wrong
	}
	waits := time.Now()
	if s.shelf.full(who.GetName()) || q.Locks && !s.toll.wait(ctx, who.GetName()) {
		return busy()
	}
	spent.add(&spent.turn, time.Since(waits))
	made, wrong := s.answer(ctx, q, c, request, acceptsGzip(r.Header.Get("Accept-Encoding")))
	if wrong != nil {
		return wrong
	}
	take, ok := s.shelf.put(who.GetName(), len(made.body))
	if !ok {
		return busy()
	}
	defer take()
	spent.tell(w.Header())
	made.write(w)
	return nil
}

// noPath stands for all paths that are no question: who may get all paths may get it.
const noPath = apiquery.Prefix + "none"

// who is the user that asks; nil for an unknown one. False: too many tokens are being checked.
func (s *Server) who(r *http.Request) (user.Info, bool) {
	leave, ok := s.porch.knock(r)
	if !ok {
		return nil, false
	}
	defer leave()
	return s.options.Access.Who(r), true
}

// made is an answer as it is sent.
type made struct {
	kind string
	body []byte
	zip  bool // compressed
}

// answer computes an answer when its turn has come. Writing it is not part of the turn: a
// caller who reads slowly holds up no other.
func (s *Server) answer(ctx context.Context, q *Question, c *caller, r *Request, zips bool) (out made, wrong *apiquery.Error) {
	waits := time.Now()
	end, ok := s.doorman.begin(ctx, c.User())
	if !ok {
		return made{}, busy()
	}
	c.spent.add(&c.spent.turn, time.Since(waits))
	defer end()
	defer func() {
		if p := recover(); p != nil {
			klog.FromContext(ctx).Error(nil, "A question made the query server panic", "path", q.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			out, wrong = made{}, &apiquery.Error{Status: http.StatusInternalServerError, Reason: ReasonInternal, Message: "the question could not be answered; the scheduler's log says why"}
		}
	}()
	answer, wrong := q.Answer(ctx, c, r)
	switch {
	case c.failed() != nil && ctx.Err() == nil:
		return made{}, unavailable()
	case ctx.Err() != nil:
		return made{}, &apiquery.Error{Status: http.StatusGatewayTimeout, Reason: ReasonTimeout, Message: "the answer took too long"}
	case wrong != nil:
		return made{}, wrong
	}
	if b, ok := answer.(Blob); ok {
		return made{kind: b.Type, body: b.Bytes}, nil
	}
	out = made{kind: "application/json", body: encode(answer)}
	if zips && len(out.body) >= zipFrom {
		out.body, out.zip = compress(out.body), true // it may be kept for a while
	}
	return out, nil
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

const zipFrom = 1 << 10 // from which size on answers are compressed

// zippers are writers that are used again: a new one takes a megabyte.
var zippers = sync.Pool{New: func() any {
	z, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is valid
	}
	return z
}}

// compress is what callers get who say that they can read it.
func compress(body []byte) []byte {
	var b bytes.Buffer
	z := zippers.Get().(*gzip.Writer)
	defer zippers.Put(z)
	z.Reset(&b)
	_, _ = z.Write(body) // a buffer takes all
	_ = z.Close()
	return b.Bytes()
}

// write sends an answer.
func (m *made) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", m.kind)
	h.Set("Vary", "Accept-Encoding")
	if m.zip {
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Length", strconv.Itoa(len(m.body)))
	_, _ = w.Write(m.body) // a caller who is gone needs no answer
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

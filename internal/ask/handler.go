package ask

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path"
	"strings"

	"github.com/tangram-dev/tangram/api/query"
)

// Handler passes requests for api/query's paths on to the leader with the kubeconfig's
// credentials, for a page that is served on this machine. Of the request only method,
// path, parameters and body go on: neither cookies nor a token of the visitor's. Who may
// use it is for the caller to decide.
func (c *Client) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !strings.HasPrefix(r.URL.Path, query.Prefix) || path.Clean(r.URL.Path) != r.URL.Path:
			writeError(w, &query.Error{Status: http.StatusNotFound, Reason: "NotFound", Message: "no such question"})
			return
		case (r.Method == http.MethodPost) != (r.URL.Path == query.PathWhatIf) || r.Method != http.MethodPost && r.Method != http.MethodGet:
			writeError(w, &query.Error{Status: http.StatusMethodNotAllowed, Reason: "Invalid", Message: "whatif takes a POST, all others a GET"})
			return
		case len(r.URL.RawQuery) > query.MaxQuery:
			writeError(w, &query.Error{Status: http.StatusRequestURITooLong, Reason: "TooLarge", Message: "the parameters are too long"})
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, query.MaxBody))
		if err != nil {
			writeError(w, &query.Error{Status: http.StatusRequestEntityTooLarge, Reason: "TooLarge", Message: err.Error()})
			return
		}
		ctx := r.Context()
		if r.URL.Path != query.PathDump { // which takes as long as it is large
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, c.options.timeout())
			defer cancel()
		}
		answer, err := c.send(ctx, Question{Path: r.URL.Path, Params: r.URL.Query(), Body: body})
		if err != nil {
			writeError(w, asQueryError(err))
			return
		}
		defer answer.Body.Close()
		for _, name := range []string{"Content-Type", "Content-Disposition", "Retry-After", "Cache-Control", "ETag"} {
			if v := answer.Header.Get(name); v != "" {
				w.Header().Set(name, v)
			}
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body) // a visitor who leaves has no use for an error
	})
}

// asQueryError puts an error of the way to the scheduler into the answers' own form.
func asQueryError(err error) *query.Error {
	e, ok := errors.AsType[*query.Error](err)
	switch {
	case ok:
		return e
	case IsForbidden(err):
		return &query.Error{Status: http.StatusForbidden, Reason: "Forbidden", Message: err.Error()}
	case IsUnreachable(err):
		return &query.Error{Status: http.StatusBadGateway, Reason: "Unreachable", Message: err.Error()}
	}
	return &query.Error{Status: http.StatusInternalServerError, Reason: "Internal", Message: err.Error()}
}

func writeError(w http.ResponseWriter, e *query.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(e.Status)
	_ = json.NewEncoder(w).Encode(e) // the connection is gone if this fails
}

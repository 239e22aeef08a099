package query

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	apiquery "github.com/tangram-dev/tangram/api/query"
)

// Request is a question's parameters and body, checked: it has only parameters that the
// question knows, each once, and no body that is too large.
type Request struct {
	params url.Values
	Body   []byte // what a POST brought
}

// Get is a parameter's value; empty when it is not given.
func (r *Request) Get(name string) string { return r.params.Get(name) }

// Uint is a parameter as a number, or what it is without it.
func (r *Request) Uint(name string, without, most uint64) (uint64, *apiquery.Error) {
	text := r.Get(name)
	if text == "" {
		return without, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n > most {
		return 0, Invalid(name, "%q is not a number from 0 to %d", shorten(text), most)
	}
	return n, nil
}

// Invalid is the error of a parameter or field that is wrong.
func Invalid(field, format string, args ...any) *apiquery.Error {
	return &apiquery.Error{Status: http.StatusBadRequest, Reason: ReasonInvalid, Field: field, Message: fmt.Sprintf(format, args...)}
}

// NotFound is the error for what is not there, or must not be seen: callers cannot tell
// which.
func NotFound(format string, args ...any) *apiquery.Error {
	return &apiquery.Error{Status: http.StatusNotFound, Reason: ReasonNotFound, Message: fmt.Sprintf(format, args...)}
}

// Reasons of errors.
const (
	ReasonInvalid      = "Invalid"
	ReasonNotFound     = "NotFound"
	ReasonTooLarge     = "TooLarge"
	ReasonBusy         = "Busy"
	ReasonForbidden    = "Forbidden"
	ReasonUnauthorized = "Unauthorized"
	ReasonNotLeader    = "NotLeader"
	ReasonMethod       = "MethodNotAllowed"
	ReasonTimeout      = "Timeout"
	ReasonInternal     = "InternalError"
	ReasonUnavailable  = "Unavailable"
)

// read checks a request against its question.
func read(q *Question, r *http.Request) (*Request, *apiquery.Error) {
	if len(r.URL.RawQuery) > apiquery.MaxQuery {
		return nil, &apiquery.Error{Status: http.StatusRequestURITooLong, Reason: ReasonTooLarge, Field: "query", Message: fmt.Sprintf("parameters have %d bytes, at most %d are read", len(r.URL.RawQuery), apiquery.MaxQuery)}
	}
	params, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, Invalid("query", "parameters cannot be read: %v", err)
	}
	for name, values := range params { // any one that is wrong will do
		if !slices.Contains(q.Params, name) {
			return nil, Invalid(shorten(name), "no such parameter; %s", known(q.Params))
		}
		if len(values) > 1 {
			return nil, Invalid(name, "is given %d times", len(values))
		}
	}
	out := &Request{params: params}
	if q.Method == http.MethodGet {
		if r.ContentLength != 0 {
			return nil, Invalid("body", "a GET has none")
		}
		return out, nil
	}
	if out.Body, err = io.ReadAll(io.LimitReader(r.Body, apiquery.MaxBody+1)); err != nil {
		return nil, Invalid("body", "cannot be read: %v", err)
	}
	if len(out.Body) > apiquery.MaxBody {
		return nil, &apiquery.Error{Status: http.StatusRequestEntityTooLarge, Reason: ReasonTooLarge, Field: "body", Message: fmt.Sprintf("is larger than %d bytes", apiquery.MaxBody)}
	}
	return out, nil
}

// known lists parameters for people.
func known(params []string) string {
	if len(params) == 0 {
		return "this question has none"
	}
	return "known are " + strings.Join(params, ", ")
}

// shorten keeps what callers sent from filling answers and logs.
func shorten(text string) string {
	const most = 64
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

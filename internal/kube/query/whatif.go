package query

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"k8s.io/apimachinery/pkg/api/validation"

	apiquery "github.com/tangram-dev/tangram/api/query"
)

// Copies answers questions on copies of the scheduler's state: internal/replica. It bounds
// itself how many run at once.
type Copies interface {
	// WhatIf says what would become of a manifest whose objects are in a namespace unless
	// they name another. Errors are *apiquery.Error where the caller is at fault.
	WhatIf(ctx context.Context, user, namespace string, manifest []byte, see Sight) (*apiquery.WhatIf, error)
	// Dump writes the state, all names in it, compressed.
	Dump(user string, w io.Writer) error
}

// whatIf answers about a manifest: the body.
func (s *Server) whatIf(ctx context.Context, c Caller, r *Request) (any, *apiquery.Error) {
	if s.options.Copies == nil {
		return nil, NotFound("this scheduler makes no copies of its state")
	}
	namespace := r.Get(apiquery.ParamNamespace)
	if namespace == "" {
		namespace = "default"
	}
	if problems := validation.ValidateNamespaceName(namespace, false); len(problems) > 0 {
		return nil, Invalid(apiquery.ParamNamespace, "%q is not a namespace: %s", shorten(namespace), problems[0])
	}
	out, err := s.options.Copies.WhatIf(ctx, c.User(), namespace, r.Body, c)
	if err != nil {
		return nil, asError(err)
	}
	return out, nil
}

// dump answers with the state: bytes that are written as they are. Who may get its path
// sees the names of all tenants, so that is a right of its own.
func (s *Server) dump(_ context.Context, c Caller, _ *Request) (any, *apiquery.Error) {
	if s.options.Copies == nil {
		return nil, NotFound("this scheduler makes no copies of its state")
	}
	var b bytes.Buffer
	if err := s.options.Copies.Dump(c.User(), &b); err != nil {
		return nil, asError(err)
	}
	return Blob{Type: "application/gzip", Bytes: b.Bytes()}, nil
}

// Blob is an answer that is not JSON.
type Blob struct {
	Type  string
	Bytes []byte
}

// asError is an error as the caller is told.
func asError(err error) *apiquery.Error {
	var e *apiquery.Error
	if errors.As(err, &e) {
		return e
	}
	return &apiquery.Error{Status: http.StatusInternalServerError, Reason: ReasonInternal, Message: err.Error()}
}

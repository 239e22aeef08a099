package cli

import (
	"net/http"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/internal/ask"
)

// misused is an error as one of usage: a flag, an argument or a file that was given cannot be
// used.
func misused(err error) error { return &ask.UsageError{Message: err.Error()} }

// missing is an error for something that is not there.
func missing(message string) error {
	return &query.Error{Status: http.StatusNotFound, Reason: "NotFound", Message: message}
}

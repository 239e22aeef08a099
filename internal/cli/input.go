package cli

import (
	"errors"
	"net/http"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/internal/ask"
	"github.com/tangram-dev/tangram/internal/bench"
	"github.com/tangram-dev/tangram/internal/sim"
)

// misused is an error as one of usage: a flag, an argument or a file that was given cannot be
// used. nil stays nil.
func misused(err error) error {
	if err == nil {
		return nil
	}
	return &ask.UsageError{Message: err.Error()}
}

// missing is an error for something that is not there.
func missing(message string) error {
	return &query.Error{Status: http.StatusNotFound, Reason: "NotFound", Message: message}
}

// byKind makes errors of packages that do not know this one tell what they are, for the
// exit code.
func byKind(err error) error {
	var flag *bench.FlagError
	var input *sim.InputError
	if errors.As(err, &flag) || errors.As(err, &input) {
		return misused(err)
	}
	return err
}

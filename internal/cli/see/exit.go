package see

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/tangram-dev/tangram/internal/ask"
)

// Exit codes of the tangram command. docs/guides/command-line.md documents them.
const (
	ExitOK          = 0
	ExitError       = 1
	ExitUsage       = 2
	ExitNotFound    = 3
	ExitForbidden   = 4
	ExitUnreachable = 5
	// ExitWaits and ExitNever are of why and whatif with --exit-code alone: it waits; it
	// will not start as things are.
	ExitWaits = 10
	ExitNever = 11
	// ExitFound is of commands that look for something wrong and found it: diagnose,
	// migrate check.
	ExitFound = 20
)

// Found is the result of a command that found something wrong.
func Found() error { return answered(ExitFound) }

// answered is an exit code of a command that did what it was asked to.
type answered int

// Error implements error; nothing is to be printed.
func (answered) Error() string { return "" }

// ExitCode is the exit code for an error.
func ExitCode(err error) int {
	var code answered
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &code):
		return int(code)
	case ask.IsUsage(err):
		return ExitUsage
	case ask.IsNotFound(err):
		return ExitNotFound
	case ask.IsForbidden(err):
		return ExitForbidden
	case ask.IsUnreachable(err), utilnet.IsConnectionRefused(err):
		return ExitUnreachable
	// Answers of the API server itself.
	case apierrors.IsNotFound(err):
		return ExitNotFound
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return ExitForbidden
	}
	return ExitError
}

package ask

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tangram-dev/tangram/api/query"
)

// UsageError is a mistake in how a question was put: a flag, a name.
type UsageError struct{ Message string }

// Error implements error.
func (e *UsageError) Error() string { return e.Message }

// UnreachableError says that there was no answer, from the API server or the scheduler.
type UnreachableError struct {
	// Whom is what was asked: "the API server https://...", "gpu-scheduler at ...".
	Whom string
	Err  error
}

// Error implements error.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("%s does not answer: %v", e.Whom, e.Err)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// IsUsage says that the question was put wrongly, as seen here or by the scheduler.
func IsUsage(err error) bool {
	_, usage := errors.AsType[*UsageError](err)
	return usage || hasStatus(err, http.StatusBadRequest)
}

// IsNotFound says that what was asked for does not exist, or that the caller may not know
// that it does.
func IsNotFound(err error) bool { return hasStatus(err, http.StatusNotFound) }

// IsForbidden says that the caller is not known, or lacks a right.
func IsForbidden(err error) bool {
	return hasStatus(err, http.StatusForbidden) || hasStatus(err, http.StatusUnauthorized) ||
		apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
}

// IsUnreachable says that there is no leader, or that it or the API server does not answer.
func IsUnreachable(err error) bool {
	_, silent := errors.AsType[*UnreachableError](err)
	return silent || hasStatus(err, http.StatusServiceUnavailable)
}

func hasStatus(err error, status int) bool {
	e, ok := errors.AsType[*query.Error](err)
	return ok && e.Status == status
}

// decodeError is the error of an answer that is not 200. What stands before the scheduler
// (a proxy) may answer with anything; of that the first line is shown.
func decodeError(status int, body []byte) *query.Error {
	var e query.Error
	if json.Unmarshal(body, &e) == nil && e.Message != "" {
		e.Status = status
		return &e
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
	line = line[:min(len(line), 300)]
	message := fmt.Sprintf("HTTP status %d", status)
	if line != "" {
		message += ": " + line
	}
	return &query.Error{Status: status, Reason: http.StatusText(status), Message: message}
}

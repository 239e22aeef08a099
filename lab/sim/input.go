package sim

import "fmt"

// InputError is a flag or a file that cannot be used: nothing was simulated. The message
// names it.
type InputError struct{ Err error }

// Error is the cause's.
func (e *InputError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *InputError) Unwrap() error { return e.Err }

// Inputf is an InputError as fmt.Errorf makes errors.
func Inputf(format string, args ...any) error { return &InputError{fmt.Errorf(format, args...)} }

// inputError is a cause as an InputError; nil stays nil.
func inputError(err error) error {
	if err == nil {
		return nil
	}
	return &InputError{err}
}

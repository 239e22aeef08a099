package health

import (
	"slices"
	"strings"
	"time"
)

// Application errors are those that a program can provoke on a device without fault.
// They are held against the device only when no small group of tenants explains them:
//
//   - Each error is remembered for BlameWindow with the tenants that used the device.
//   - The device is suspect when fewer than Options.Tenants tenants cannot have caused
//     all remembered errors: among every Tenants-1 of them, some error happened while
//     none of these used the device. So one tenant that fails in a loop is never enough,
//     however many share the device with him and come and go.
//   - It is suspect for the quiet time and not longer, whatever errors follow, and not
//     again before BlameWindow has passed. So application errors cost a device at most
//     that part of its time.
//
// The bounds keep the work per error small, however many errors a tenant provokes.
const (
	maxErrors  = 16 // remembered, of different sets of tenants
	maxTenants = 8  // of one error; with more of them no tenant can be blamed
	maxGroup   = 4  // bound of Options.Tenants: the search takes maxTenants to its power
)

// ApplicationError is one of them.
type ApplicationError struct {
	At time.Time
	// Tenants are sorted and unique.
	Tenants []string
}

// blame remembers an error and says whether the device is now to be held suspect.
func (s *Saved) blame(now time.Time, tenants []string, o *Options) bool {
	s.forgetErrors(now, o)
	if now.Before(s.BlamelessUntil) {
		return false
	}
	tenants = slices.Compact(slices.Sorted(slices.Values(tenants)))
	if len(tenants) == 0 || len(tenants) > maxTenants {
		return false
	}
	same := func(e ApplicationError) bool { return slices.Equal(e.Tenants, tenants) }
	if i := slices.IndexFunc(s.Errors, same); i >= 0 {
		s.Errors = slices.Delete(s.Errors, i, i+1)
	} else if len(s.Errors) >= maxErrors {
		s.Errors = slices.Delete(s.Errors, 0, 1)
	}
	s.Errors = append(s.Errors, ApplicationError{At: now, Tenants: tenants})
	if explains(s.Errors, o.Tenants-1) {
		return false
	}
	s.Errors = nil
	s.BlamelessUntil = now.Add(o.BlameWindow)
	return true
}

// forgetErrors drops what is older than the window; errors are in the order of time.
func (s *Saved) forgetErrors(now time.Time, o *Options) {
	old := 0
	for old < len(s.Errors) && !now.Before(s.Errors[old].At.Add(o.BlameWindow)) {
		old++
	}
	s.Errors = slices.Delete(s.Errors, 0, old)
}

// explains: at most n tenants can have caused all errors.
func explains(errors []ApplicationError, n int) bool {
	if len(errors) == 0 {
		return true
	}
	if n == 0 {
		return false
	}
	for _, t := range errors[0].Tenants {
		rest := slices.DeleteFunc(slices.Clone(errors), func(e ApplicationError) bool {
			_, found := slices.BinarySearchFunc(e.Tenants, t, strings.Compare)
			return found
		})
		if explains(rest, n-1) {
			return true
		}
	}
	return false
}

package health

import (
	"fmt"
	"slices"
	"time"
)

// Options are an operator's choices.
type Options struct {
	// Table says what each XID asks for.
	Table Table
	// HotCelsius is the temperature from which a device is hot; it is no longer hot
	// HotMargin degrees below. 0 turns the check off.
	HotCelsius int
	// HotFor and ThrottledFor are how long a device must be hot, or be held down by its
	// hardware, before that counts.
	HotFor, ThrottledFor time.Duration
	// LinkFor is how long an NVLink must be down, or PCIe narrow, before it counts.
	LinkFor time.Duration
	// SilentFor is how long the driver may leave a device's questions unanswered before
	// it is degraded, FailedFor before it has failed.
	SilentFor, FailedFor time.Duration
	// UnwatchedFor is how long events may be missed before the device is suspect.
	UnwatchedFor time.Duration
	// Tenants is how many tenants must be needed to explain all application errors
	// within BlameWindow, before they are held against the device. At least 2.
	Tenants     int
	BlameWindow time.Duration
	// QuietPercent scales all quiet times; 100 for those of the rules.
	QuietPercent int
	// FlapWindow: a cause that comes back within it, after it was forgotten, doubles its
	// quiet time, at most MaxDoublings times.
	FlapWindow   time.Duration
	MaxDoublings int
	// Disabled are causes that never count.
	Disabled []Code
}

// HotMargin is how far below HotCelsius a device must cool down.
const HotMargin = 5

// Defaults are what an agent uses unless told otherwise.
func Defaults() Options {
	return Options{
		Table:      DefaultTable(),
		HotCelsius: 90, HotFor: 5 * time.Minute, ThrottledFor: 10 * time.Minute,
		LinkFor: time.Minute, SilentFor: 30 * time.Second, FailedFor: 10 * time.Minute, UnwatchedFor: 2 * time.Minute,
		Tenants: 3, BlameWindow: time.Hour,
		QuietPercent: 100, FlapWindow: 6 * time.Hour, MaxDoublings: 3,
	}
}

// Validate names the first field that makes no rule.
func (o *Options) Validate() error {
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"hotFor", o.HotFor}, {"throttledFor", o.ThrottledFor}, {"linkFor", o.LinkFor}, {"silentFor", o.SilentFor},
		{"failedFor", o.FailedFor}, {"unwatchedFor", o.UnwatchedFor}, {"blameWindow", o.BlameWindow}, {"flapWindow", o.FlapWindow},
	} {
		if d.value < 0 || d.value > 30*24*time.Hour {
			return fmt.Errorf("%s: %s is not between 0 and 30 days", d.field, d.value)
		}
	}
	if o.FailedFor < o.SilentFor {
		return fmt.Errorf("failedFor: %s is shorter than SilentFor, %s", o.FailedFor, o.SilentFor)
	}
	if o.HotCelsius < 0 || o.HotCelsius > 200 {
		return fmt.Errorf("hotCelsius: %d is not between 0 (off) and 200", o.HotCelsius)
	}
	if o.Tenants < 2 || o.Tenants > maxGroup {
		return fmt.Errorf("tenants: %d is not between 2 and %d", o.Tenants, maxGroup)
	}
	if o.QuietPercent < 0 || o.QuietPercent > 10000 {
		return fmt.Errorf("quietPercent: %d is not between 0 and 10000", o.QuietPercent)
	}
	if o.MaxDoublings < 0 || o.MaxDoublings > 10 {
		return fmt.Errorf("maxDoublings: %d is not between 0 and 10", o.MaxDoublings)
	}
	for _, c := range o.Disabled {
		if rank(c) < 0 {
			return fmt.Errorf("disabled: unknown cause %q; the causes are %v", c, Codes())
		}
	}
	return nil
}

func (o *Options) disabled(code Code) bool { return slices.Contains(o.Disabled, code) }

// Package model breaks every rule of a pure package.
package model

import (
	clock "time"
)

// Age reads a clock under another name.
func Age(t clock.Time) clock.Duration {
	return clock.Since(t) // want: time.Since: core has no clock
}

// Wait waits in all ways there are.
func Wait() {
	clock.Sleep(clock.Second)         // want: time.Sleep
	<-clock.After(clock.Second)       // want: time.After
	<-clock.Tick(clock.Second)        // want: time.Tick
	_ = clock.NewTimer(clock.Second)  // want: time.NewTimer
	_ = clock.NewTicker(clock.Second) // want: time.NewTicker
	_ = clock.Until(clock.Now())      // want: time.Until; time.Now
}

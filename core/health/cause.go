package health

import (
	"slices"
	"time"
)

// level begins or ends a cause that samples show: 1 for present, 0 for gone.
func (d *Device) level(now time.Time, code Code, present int, words string) {
	switch {
	case present == 0:
		d.end(now, code)
	case present > 0:
		d.raise(now, code, 0, words)
	}
}

// lasting is level for what counts only after some time; since is when it began. While
// the cause is remembered, it counts at once when it comes back.
func (d *Device) lasting(now time.Time, code Code, since *time.Time, atLeast time.Duration, present int, words string) {
	switch {
	case present == 0:
		*since = time.Time{}
		d.end(now, code)
	case present > 0:
		if since.IsZero() {
			*since = now
		}
		remembered := slices.ContainsFunc(d.s.Causes, func(c Cause) bool { return c.Code == code })
		if remembered || now.Sub(*since) >= atLeast {
			d.raise(now, code, 0, words)
		}
	}
}

// raise begins a cause, or begins it anew.
func (d *Device) raise(now time.Time, code Code, xid int, words string) {
	if d.o.disabled(code) {
		return
	}
	r := rules[rank(code)]
	at := slices.IndexFunc(d.s.Causes, func(c Cause) bool { return rank(c.Code) >= rank(code) })
	if at < 0 {
		at = len(d.s.Causes)
	}
	if at == len(d.s.Causes) || d.s.Causes[at].Code != code {
		c := Cause{Code: code, State: r.state, Since: now, Quiet: d.quiet(now, r)}
		d.s.Causes = slices.Insert(d.s.Causes, at, c)
	}
	c := &d.s.Causes[at]
	c.XID, c.Words, c.Gone, c.Rebooted = xid, words, time.Time{}, false
	if r.proof == byTime {
		c.Gone = now
	}
}

// end notes that a cause is gone; its quiet time begins.
func (d *Device) end(now time.Time, code Code) {
	for i := range d.s.Causes {
		if c := &d.s.Causes[i]; c.Code == code && c.Gone.IsZero() {
			c.Gone = now
		}
	}
}

// quiet is the quiet time of a cause that begins now: doubled for each time that it
// came back soon. That of application errors is fixed, or tenants could lengthen it.
func (d *Device) quiet(now time.Time, r rule) time.Duration {
	quiet := r.quiet * time.Duration(d.o.QuietPercent) / 100
	if r.code == ApplicationErrors {
		return quiet
	}
	for i := range d.s.Flaps {
		f := &d.s.Flaps[i]
		if f.Code != r.code {
			continue
		}
		if now.Sub(f.Ended) >= d.o.FlapWindow {
			f.Times = 0
		}
		return quiet << min(f.Times, d.o.MaxDoublings)
	}
	return quiet
}

// ended counts a cause that is forgotten.
func (d *Device) ended(now time.Time, c Cause) {
	i := slices.IndexFunc(d.s.Flaps, func(f Flap) bool { return f.Code == c.Code })
	if i < 0 {
		i = len(d.s.Flaps)
		d.s.Flaps = append(d.s.Flaps, Flap{Code: c.Code})
	}
	d.s.Flaps[i].Times = min(d.s.Flaps[i].Times+1, d.o.MaxDoublings)
	d.s.Flaps[i].Ended = now
}

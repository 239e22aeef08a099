package see

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/internal/terminal"
)

// none stands for what is not there.
const none = "-"

// thousandths of something as a decimal: 8, 0.5, 1.25.
func thousandths(milli int64) string {
	text := strconv.FormatFloat(float64(milli)/1000, 'f', 3, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// gpus is an amount of GPUs with its noun: 1 GPU, 0.5 GPUs.
func gpus(milli int64) string {
	if milli == 1000 {
		return "1 GPU"
	}
	return thousandths(milli) + " GPUs"
}

// limit is an amount that may not be set.
func limit(milli *int64) string {
	if milli == nil {
		return none
	}
	return thousandths(*milli)
}

// Count is a number and a noun: 1 node, 3 nodes.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// span is a duration as kubectl writes ages: the two largest units.
func span(d time.Duration) string {
	d = max(d, 0).Round(time.Second)
	parts := []int{int(d.Hours()) / 24, int(d.Hours()) % 24, int(d.Minutes()) % 60, int(d.Seconds()) % 60}
	first := slices.IndexFunc(parts, func(n int) bool { return n > 0 })
	if first < 0 {
		return "0s"
	}
	out := ""
	for i := first; i < min(first+2, len(parts)); i++ {
		if parts[i] > 0 {
			out += fmt.Sprintf("%d%c", parts[i], "dhms"[i])
		}
	}
	return out
}

// moment is a time that was told, seen from when it was told: "in 5m (09:46:07)".
func moment(at, now time.Time) string {
	clock := at.Local().Format("15:04:05")
	if d := at.Sub(now); d > 24*time.Hour || d < -24*time.Hour {
		clock = at.Local().Format("2006-01-02 15:04")
	}
	if !at.After(now) {
		return "any moment (" + clock + ")"
	}
	return "in " + span(at.Sub(now)) + " (" + clock + ")"
}

// mebibytes with the unit that people would use.
func mebibytes(n int64) string {
	if n >= 1024 && n%1024 == 0 || n >= 10*1024 {
		return strconv.FormatInt(n/1024, 10) + "Gi"
	}
	return strconv.FormatInt(n, 10) + "Mi"
}

func gangName(g query.GangRef) string { return g.Namespace + "/" + g.Name }

func podName(p query.PodRef) string { return p.Namespace + "/" + p.Name }

// gangNames lists gangs, and how many cannot be named.
func gangNames(gangs []query.GangRef, hidden int) string {
	return seen(named(gangs, func(g *query.GangRef) string { return gangName(*g) }), hidden)
}

// seen lists what the caller may see, and how much the caller may not.
func seen(names []string, hidden int) string {
	if hidden > 0 {
		names = append(names, fmt.Sprintf("%d that you may not see", hidden))
	}
	return strings.Join(names, ", ")
}

func named[T any](items []T, name func(*T) string) (out []string) {
	for i := range items {
		out = append(out, name(&items[i]))
	}
	return out
}

// parts are devices: "0,1" for whole ones, "3 (0.25, 5120Mi)", "2 (1g.10gb)".
func parts(devices []query.Part) string {
	var out []string
	for _, d := range devices {
		text := strconv.Itoa(d.Index)
		switch {
		case d.Profile != "":
			text += " (" + d.Profile + ")"
		case d.Milli < 1000 && d.MemoryMiB > 0:
			text += fmt.Sprintf(" (%s, %s)", thousandths(d.Milli), mebibytes(d.MemoryMiB))
		case d.Milli < 1000:
			text += " (" + thousandths(d.Milli) + ")"
		}
		out = append(out, text)
	}
	return or(strings.Join(out, ","))
}

// some are the first few of names, and how many more there are.
func some(names []string, n int) string {
	if len(names) <= n {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:n], ", ") + fmt.Sprintf(" and %d more", len(names)-n)
}

// or is text, or a dash for none.
func or(text string) string { return cmp.Or(text, none) }

// styles are the colours of a gang's phase, and of the state of a device, node or queue.
var styles = map[string]terminal.Style{
	query.PhaseRunning: terminal.Good, query.PhaseStarting: terminal.Blue, query.PhaseWaiting: terminal.Warn, query.PhasePartial: terminal.Warn,
	"failed": terminal.Bad, "lost": terminal.Bad, "degraded": terminal.Warn, "cordoned": terminal.Warn, "idle_allocated": terminal.Warn,
	"Closing": terminal.Warn, "Closed": terminal.Warn, "free": terminal.Good, "ready": terminal.Good,
}

// styled is a phase or a state in its colour.
func styled(word string) terminal.Cell { return terminal.Cell{Text: word, Style: styles[word]} }

// asOf says how old the answer is, by this machine's clock.
func asOf(s *terminal.Screen, at time.Time) {
	s.Blank()
	s.Line(terminal.Dim, "%s", asOfText(at, s.Now()))
}

func asOfText(at, now time.Time) string {
	text := "As of " + at.Local().Format("2006-01-02 15:04:05 MST")
	switch age := now.Sub(at); {
	case age < -2*time.Second:
		return text + fmt.Sprintf(" by the scheduler's clock, which is %s ahead of this machine's.", span(-age))
	case age < 2*time.Second:
		return text + " (now)."
	default:
		return text + " (" + span(age) + " ago)."
	}
}

// printHidden remarks on what the caller may not see; right is the resource to list.
func printHidden(s *terminal.Screen, n int, noun, right string) {
	if n > 0 {
		s.Line(terminal.Dim, "%s not shown: you may not list %s.", Count(n, noun), right)
	}
}

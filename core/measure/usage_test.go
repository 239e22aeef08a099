package measure_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/measure"
	"github.com/tangram-dev/tangram/core/model"
)

// Accounts that the meter drops for metrics stay in the usage; a restart begins anew.
func TestUsageKeepsThePast(t *testing.T) {
	m := measure.NewMeter(measure.DefaultLimits())
	m.Restart(0)
	m.SetPrices(prices(t, map[string]int64{"A100": 65_000_000}), 0)
	ada := measure.Owner{Queue: "research", Namespace: "ml", User: "ada"}
	m.Set("a", ada, []measure.Hold{{Model: gpu("A100"), Milli: 1000}}, 0)
	m.End("a", 2*hour)
	if rows := m.Read(10 * hour); len(rows) != 0 {
		t.Fatalf("Read returns %v, want nothing after eight hours without a holder", rows)
	}
	m.Set("b", ada, []measure.Hold{{Model: gpu("A100"), Milli: 500}}, 10*hour)
	want := []measure.Used{{
		Row:   measure.Row{Key: measure.Key{Queue: "research", Namespace: "ml", User: "ada", Model: "a100"}, Amount: 2500 * hour, Cost: 65_000_000 * 5 / 2},
		Milli: 500,
	}}
	if diff := cmp.Diff(want, m.Usage(11*hour)); diff != "" {
		t.Errorf("usage: %s", diff)
	}
	m.Restart(11 * hour)
	if got := m.Usage(11 * hour); len(got) != 1 || got[0].Amount != 0 || m.Since() != 11*hour {
		t.Errorf("after a restart: %+v since %d, want 0 since %d", got, m.Since(), 11*hour)
	}
}

// Sums by any columns, of any part that is visible, add up to all that was ever held, and
// the number of rows stays bounded, whatever namespaces and users come and go.
func TestUsageAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := measure.Limits{Keys: 8, PerNamespace: 3, Models: 4, KeepFor: hour}
		m := measure.NewMeter(limits)
		now, total := int64(0), int64(0)
		for i := range rapid.IntRange(1, 60).Draw(t, "pods") {
			h := model.HolderID(fmt.Sprint(i))
			owner := measure.Owner{
				Queue:     rapid.SampledFrom([]string{"q1", "q2"}).Draw(t, "queue"),
				Namespace: fmt.Sprint("n", rapid.IntRange(0, 12).Draw(t, "namespace")),
				User:      fmt.Sprint("u", rapid.IntRange(0, 6).Draw(t, "user")),
			}
			milli := int64(rapid.IntRange(1, 8000).Draw(t, "milli"))
			length := int64(rapid.IntRange(0, int(3*hour)).Draw(t, "for"))
			m.Set(h, owner, []measure.Hold{{Model: gpu("A100"), Milli: milli}}, now)
			now += length
			total += milli * length
			m.End(h, now)
			if rapid.Bool().Draw(t, "read") {
				m.Read(now)
			}
		}
		rows := m.Usage(now)
		if most := 2*limits.Keys + 2*limits.Models; len(rows) > most {
			t.Fatalf("%d rows, at most %d are expected", len(rows), most)
		}
		by := measure.Columns{Queue: rapid.Bool().Draw(t, "by queue"), Namespace: rapid.Bool().Draw(t, "by namespace"), User: rapid.Bool().Draw(t, "by user"), Model: rapid.Bool().Draw(t, "by model")}
		secret := fmt.Sprint("n", rapid.IntRange(0, 12).Draw(t, "hidden"))
		items, hidden := measure.Sum(rows, by, func(ns string) bool { return ns != secret })
		sum := hidden.Amount
		seen := map[measure.Key]bool{}
		for _, x := range items {
			sum += x.Amount
			if seen[x.Key] || x.Namespace == secret || !by.User && x.User != "" || !by.Queue && x.Queue != "" {
				t.Fatalf("row %+v of %v by %+v", x, items, by)
			}
			seen[x.Key] = true
		}
		if sum != total || hidden.Key != (measure.Key{}) {
			t.Fatalf("rows add up to %d, want %d; hidden %+v", sum, total, hidden)
		}
	})
}

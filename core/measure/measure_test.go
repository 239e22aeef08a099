package measure_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/measure"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/pack"
)

const hour = int64(3_600_000) // milliseconds

func gpu(name string) model.GPUModel { return model.ParseModel(name) }

func prices(t *testing.T, micro map[string]int64) measure.Prices {
	t.Helper()
	p, err := measure.NewPrices("CNY", micro)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Two A100s for two hours and half a T4 for one: hours by fraction, cost by model, and a
// model without a price is counted as such.
func TestMeter(t *testing.T) {
	m := measure.NewMeter(measure.DefaultLimits())
	m.SetPrices(prices(t, map[string]int64{"A100": 65_000_000}), 0)
	ada := measure.Owner{Queue: "research", Namespace: "ml", User: "ada"}
	m.Set("a", ada, []measure.Hold{{Model: gpu("NVIDIA-A100-SXM4-80GB"), Milli: 2000}}, 0)
	m.Set("b", ada, []measure.Hold{{Model: gpu("Tesla-T4"), Milli: 500}}, hour)
	if used := m.Used("a", hour/2); used != 1000*hour {
		t.Errorf("a used %d after half an hour, want %d", used, 1000*hour)
	}
	if used := m.End("a", 2*hour); used != 4000*hour {
		t.Errorf("a used %d in all, want %d", used, 4000*hour)
	}
	want := []measure.Row{
		{Key: measure.Key{Queue: "research", Namespace: "ml", User: "ada", Model: "a100-80gb-sxm4"}, Amount: 4000 * hour, Cost: 4 * 65_000_000},
		{Key: measure.Key{Queue: "research", Namespace: "ml", User: "ada", Model: "t4"}, Amount: 500 * hour, Unpriced: 500 * hour},
	}
	if diff := cmp.Diff(want, m.Read(2*hour)); diff != "" {
		t.Errorf("after two hours: %s", diff)
	}
	// What was used before a price changed costs what it cost then.
	m.SetPrices(prices(t, map[string]int64{"t4": 8_500_000}), 3*hour)
	m.End("b", 5*hour)
	rows := m.Read(5 * hour)
	if len(rows) != 1 {
		t.Fatalf("rows %v: the account of the A100 had no holder for three hours", rows)
	}
	if r := rows[0]; r.Amount != 2000*hour || r.Unpriced != 1000*hour || r.Cost != 8_500_000 {
		t.Errorf("t4: %+v, want 2 hours, 1 of them without a price, cost 8.5", r)
	}
	// Accounts without holders end after a while.
	if rows := m.Read(6*hour + 1); len(rows) != 0 {
		t.Errorf("an hour after the last holder ended: %v", rows)
	}
}

// A process that begins to lead counts from then on.
func TestMeterRestart(t *testing.T) {
	m := measure.NewMeter(measure.DefaultLimits())
	m.Set("a", measure.Owner{Queue: "q"}, []measure.Hold{{Milli: 1000}}, 0)
	m.Restart(hour)
	if used := m.Used("a", 2*hour); used != 1000*hour {
		t.Errorf("used %d, want %d", used, 1000*hour)
	}
	if rows := m.Read(2 * hour); len(rows) != 1 || rows[0].Amount != 1000*hour || rows[0].Model != measure.UnknownModel {
		t.Errorf("rows: %v", rows)
	}
}

// 100,000 hostile owners: the number of accounts is bounded, a namespace cannot take all
// of them, and nothing that was used is lost.
func TestMeterBounded(t *testing.T) {
	l := measure.DefaultLimits()
	m := measure.NewMeter(l)
	one := []measure.Hold{{Model: gpu("T4"), Milli: 1000}}
	for i := range 100_000 {
		owner := measure.Owner{Queue: fmt.Sprintf("q%d", i%7), Namespace: "attacker", User: fmt.Sprintf("user-%d", i)}
		if i%2 == 1 {
			owner.Namespace = fmt.Sprintf("space-%d", i)
		}
		if i%1000 == 0 {
			owner.User = strings.Repeat("x", 10_000)
		}
		m.Set(model.HolderID(fmt.Sprint(i)), owner, one, 0)
	}
	rows := m.Read(hour)
	var sum int64
	attacker := 0
	for _, r := range rows {
		sum += r.Amount
		if r.Namespace == "attacker" {
			attacker++
		}
		if len(r.User) > 253 {
			t.Errorf("user of %d bytes", len(r.User))
		}
	}
	if len(rows) > l.Keys+l.Models || sum != 100_000*1000*hour {
		t.Errorf("%d accounts, sum %d; want at most %d and %d", len(rows), sum, l.Keys+l.Models, 100_000*1000*hour)
	}
	if attacker > l.PerNamespace+l.Models {
		t.Errorf("one namespace has %d of %d accounts", attacker, len(rows))
	}
	if m.Folded() == 0 {
		t.Error("nothing was folded")
	}
	// An owner that comes after they are gone has an account of its own.
	for i := range 100_000 {
		m.End(model.HolderID(fmt.Sprint(i)), hour)
	}
	m.Read(hour + l.KeepFor + 1)
	m.Set("late", measure.Owner{Queue: "q", Namespace: "honest", User: "ada"}, one, 3*hour)
	if rows := m.Read(3 * hour); len(rows) != 1 || rows[0].Namespace != "honest" {
		t.Errorf("rows after the attack: %v", rows)
	}
}

// Whatever holders do, accounts add up to what each holder used, and money to its hours
// times the price.
func TestMeterAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := measure.Limits{Keys: rapid.IntRange(1, 4).Draw(t, "keys"), PerNamespace: rapid.IntRange(1, 3).Draw(t, "each"), Models: 2, KeepFor: 1 << 60}
		m := measure.NewMeter(limits)
		p, err := measure.NewPrices("X", map[string]int64{"t4": 7})
		if err != nil {
			t.Fatal(err)
		}
		m.SetPrices(p, 0)
		names := []string{"a", "b", "c"}
		models := []model.GPUModel{{}, gpu("t4"), gpu("a10"), gpu("h100")}
		var now, used int64
		holding := map[model.HolderID]int64{}
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			step := rapid.Int64Range(0, 3*hour).Draw(t, "step")
			for _, milli := range holding {
				used += milli * step
			}
			now += step
			h := model.HolderID(rapid.SampledFrom([]string{"1", "2", "3", "4"}).Draw(t, "holder"))
			switch rapid.IntRange(0, 3).Draw(t, "event") {
			case 0:
				m.End(h, now)
				delete(holding, h)
			case 1:
				m.Read(now)
			default:
				draw := func(what string) string { return rapid.SampledFrom(names).Draw(t, what) }
				milli := rapid.Int64Range(1, 8000).Draw(t, "milli")
				m.Set(h, measure.Owner{Queue: draw("queue"), Namespace: draw("namespace"), User: draw("user")},
					[]measure.Hold{{Model: rapid.SampledFrom(models).Draw(t, "model"), Milli: milli}}, now)
				holding[h] = milli
			}
		}
		var sum int64
		rows := m.Read(now)
		for _, r := range rows {
			sum += r.Amount
			priced := r.Amount - r.Unpriced
			if r.Model == "t4" {
				if want := priced * 7 / (1000 * hour); r.Cost != want {
					t.Fatalf("%v: cost %d, want %d", r.Key, r.Cost, want)
				}
			}
		}
		if sum != used {
			t.Fatalf("accounts sum to %d, holders used %d", sum, used)
		}
		if len(rows) > limits.Keys+limits.Models+1 {
			t.Fatalf("%d accounts", len(rows))
		}
		if !slices.IsSortedFunc(rows, func(a, b measure.Row) int {
			return strings.Compare(a.Queue+"\x00"+a.Namespace+"\x00"+a.User+"\x00"+a.Model, b.Queue+"\x00"+b.Namespace+"\x00"+b.User+"\x00"+b.Model)
		}) {
			t.Fatalf("not sorted: %v", rows)
		}
	})
}

// The largest fleet for years neither overflows nor panics.
func TestMeterLimits(t *testing.T) {
	m := measure.NewMeter(measure.DefaultLimits())
	m.SetPrices(prices(t, map[string]int64{"t4": measure.MaxPrice}), 0)
	m.Set("a", measure.Owner{}, []measure.Hold{{Model: gpu("t4"), Milli: 1 << 40}}, 0)
	rows := m.Read(100 * 365 * 24 * hour)
	if rows[0].Amount <= 0 || rows[0].Cost <= 0 {
		t.Errorf("overflow: %+v", rows[0])
	}
}

func TestPrices(t *testing.T) {
	p := prices(t, map[string]int64{"A100": 60_000_000, "A100 80GB": 65_000_000, "A10": 18_000_000})
	for _, c := range []struct {
		model string
		want  int64
		ok    bool
	}{
		{"NVIDIA-A100-SXM4-80GB", 65_000_000, true}, {"NVIDIA A100-SXM4-40GB", 60_000_000, true},
		{"NVIDIA A10", 18_000_000, true}, {"H100", 0, false}, {"", 0, false},
	} {
		t.Run(c.model, func(t *testing.T) {
			if got, ok := p.Of(gpu(c.model)); got != c.want || ok != c.ok {
				t.Errorf("got %d %t, want %d %t", got, ok, c.want, c.ok)
			}
		})
	}
	for _, c := range []struct {
		name, currency string
		micro          map[string]int64
		want           string
	}{
		{"no currency", "", nil, "currency"},
		{"no model", "CNY", map[string]int64{"gpu": 1}, "perGPUHour[gpu]: does not name a GPU model"},
		{"negative", "CNY", map[string]int64{"t4": -1}, "perGPUHour[t4]: must be 0 to 1000000"},
		{"too much", "CNY", map[string]int64{"t4": measure.MaxPrice + 1}, "perGPUHour[t4]: must be 0 to 1000000"},
		{"twice", "CNY", map[string]int64{"t4": 1, "Tesla T4": 2}, "perGPUHour[t4]: is the same model as Tesla T4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := measure.NewPrices(c.currency, c.micro); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestNames(t *testing.T) {
	n := measure.NewNames(10)
	for i := range 100_000 {
		name := fmt.Sprintf("queue-%d", i)
		if got := n.Admit(name); i < 10 && got != name || i >= 10 && got != measure.Other {
			t.Fatalf("%s: admitted as %s", name, got)
		}
	}
	for _, bad := range []string{strings.Repeat("x", 300), "\xff\xfe", measure.Other} {
		if got := measure.NewNames(10).Admit(bad); got != measure.Other {
			t.Errorf("%q admitted", bad)
		}
	}
	dropped := n.Keep(func(name string) bool { return name != "queue-3" && name != "queue-1" })
	if diff := cmp.Diff([]string{"queue-1", "queue-3"}, dropped); diff != "" || n.Size() != 8 || n.Admit("new") != "new" {
		t.Errorf("dropped %v of them, %d left", dropped, n.Size())
	}
}

func TestUnusable(t *testing.T) {
	node := func(cpu int64, free ...uint16) pack.Shape {
		s := pack.Shape{CPU: cpu, Memory: 1 << 20, GPUs: uint8(len(free)), Model: 1}
		copy(s.Free[:], free)
		return s
	}
	whole := func(gpus uint8) pack.Class { return pack.Class{CPU: 1000, GPUs: gpus, Milli: pack.Whole} }
	share := pack.Class{CPU: 1000, GPUs: 1, Milli: 500}
	other := pack.Class{GPUs: 1, Milli: pack.Whole, Models: pack.Set(2)}
	for _, c := range []struct {
		name           string
		node           pack.Shape
		classes        []pack.Class
		free, unusable int64
	}{
		{"nothing is asked for", node(0, 1000, 300), nil, 1300, 0},
		{"one of two for a pair", node(9000, 1000, 0), []pack.Class{whole(2)}, 1000, 1000},
		{"both for a pair", node(9000, 1000, 1000), []pack.Class{whole(2)}, 2000, 0},
		{"a rest too small for shares", node(9000, 1000, 300), []pack.Class{share}, 1300, 300},
		{"no CPU left", node(500, 1000, 1000), []pack.Class{whole(1), share}, 2000, 2000},
		{"another model", node(9000, 1000), []pack.Class{other}, 1000, 1000},
		{"one of several can", node(9000, 1000, 600), []pack.Class{whole(8), share}, 1600, 0},
		{"full", node(0, 0, 0), []pack.Class{whole(1)}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			free, unusable := measure.Unusable([]pack.Shape{c.node}, c.classes)
			if free != c.free || unusable != c.unusable {
				t.Errorf("free %d, unusable %d; want %d, %d", free, unusable, c.free, c.unusable)
			}
		})
	}
}

// A device is unusable exactly when no class fits the node in a way that could take it:
// tried one by one, with the slow definition.
func TestUnusableAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := pack.Shape{CPU: rapid.Int64Range(0, 4).Draw(t, "cpu"), GPUs: uint8(rapid.IntRange(0, 6).Draw(t, "gpus")), Model: 1}
		for i := range n.GPUs {
			n.Free[i] = rapid.SampledFrom([]uint16{0, 100, 500, 999, 1000}).Draw(t, "free")
		}
		var classes []pack.Class
		for range rapid.IntRange(0, 4).Draw(t, "classes") {
			c := pack.Class{CPU: rapid.Int64Range(0, 5).Draw(t, "needs"), GPUs: 1, Milli: rapid.SampledFrom([]uint16{50, 500, 1000}).Draw(t, "milli")}
			if c.Milli == pack.Whole {
				c.GPUs = uint8(rapid.IntRange(1, 6).Draw(t, "count"))
			}
			classes = append(classes, c)
		}
		var want int64
		for slot := range int(n.GPUs) {
			usable := len(classes) == 0
			for _, c := range classes {
				usable = usable || n.Fits(&c) && n.Free[slot] >= c.Milli
			}
			if !usable {
				want += int64(n.Free[slot])
			}
		}
		free, got := measure.Unusable([]pack.Shape{n}, classes)
		if got != want || free != n.Idle() || got > free {
			t.Fatalf("unusable %d of %d, want %d", got, free, want)
		}
	})
}

func TestIdle(t *testing.T) {
	i := measure.NewIdle(1, 600_000)
	look := func(now int64, held int64, r model.Reading) bool {
		defer i.Sweep()
		return i.Held("n1", 0, held, r, now)
	}
	quiet := model.Measured(0)
	for _, c := range []struct {
		name      string
		now, held int64
		reading   model.Reading
		want      bool
	}{
		{"first seen", 1_000_000, 0, quiet, false},
		{"not long enough", 1_599_999, 0, quiet, false},
		{"long enough", 1_600_000, 0, model.Measured(1), true},
		{"another holder", 1_700_000, 1_650_000, quiet, false},
		{"of the other long enough", 2_250_000, 1_650_000, quiet, true},
		{"busy", 2_300_000, 1_650_000, model.Measured(2), false},
		{"quiet again", 2_400_000, 1_650_000, quiet, false},
		{"not measured", 3_100_000, 1_650_000, model.Reading{}, false},
	} {
		if got := look(c.now, c.held, c.reading); got != c.want {
			t.Errorf("%s: idle %t, want %t", c.name, got, c.want)
		}
	}
	if i.Sweep(); i.Size() != 0 {
		t.Errorf("%d devices remembered that are gone", i.Size())
	}
}

func TestUptime(t *testing.T) {
	var u measure.Uptime
	if _, total := u.Sums(0); total != 0 {
		t.Error("something is known at the start")
	}
	now := int64(1_700_000_000_000)
	for range 999 {
		u.Add(now, now+5000, true)
		now += 5000
	}
	u.Add(now, now+5000, false)
	u.Add(now, now-5000, false)    // the clock went back
	u.Add(now, now+24*hour, false) // the process was stopped
	if up, total := u.Sums(now); up != 999*5000 || total != 1000*5000 {
		t.Errorf("up %d of %d", up, total)
	}
	if up, total := u.Sums(now + 31*24*hour); up != 0 || total != 0 {
		t.Errorf("after 31 days: up %d of %d", up, total)
	}
}

package plugin

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tangram-dev/tangram/core/engine"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
	"github.com/tangram-dev/tangram/internal/kube/watch"
)

var update = flag.Bool("update", false, "write the tables of docs/reference/configuration.md")

// row is a setting of any plugin.
type row struct{ plugin, field, def, least, most, meaning string }

func rowsOf[A any](plugin string, table []setting[A]) (out []row) {
	for _, s := range table {
		text := func(v int64) string {
			if s.count != nil {
				return fmt.Sprint(v)
			}
			return short(time.Duration(v))
		}
		out = append(out, row{plugin, s.field, text(s.def), text(s.least), text(s.most), s.meaning})
	}
	return out
}

func allRows() []row {
	out := rowsOf("GPUQueue", queueSettings())
	out = append(out, rowsOf("GPUGang", gangSettings())...)
	out = append(out, rowsOf("GPUBind", bindSettings())...)
	return append(out, rowsOf("GPUClaims", claimsSettings())...)
}

// TestConfigurationPage: the reference has the table of settings as the code has it, and
// names every argument of every plugin. "go test ./internal/kube/plugin -run
// ConfigurationPage -update" writes the table.
func TestConfigurationPage(t *testing.T) {
	path := filepath.Join("..", "..", "..", "docs", "reference", "configuration.md")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- settings: generated -->\n", "<!-- end of settings -->"
	before, rest, found := strings.Cut(string(data), begin)
	table, after, foundEnd := strings.Cut(rest, end)
	if !found || !foundEnd {
		t.Fatalf("%s has no %q and %q", path, begin, end)
	}
	want := "| plugin | argument | default | from | to | meaning |\n|---|---|---|---|---|---|\n"
	for _, r := range allRows() {
		want += fmt.Sprintf("| %s | `%s` | %s | %s | %s | %s |\n", r.plugin, r.field, r.def, r.least, r.most, r.meaning)
	}
	if *update {
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if table != want {
		t.Errorf("the table is not as the code has it; run this test with -update")
	}
	for plugin, args := range map[string]reflect.Type{
		"GPUQueue": reflect.TypeFor[QueueArgs](), "GPUFilter": reflect.TypeFor[FilterArgs](), "GPUScore": reflect.TypeFor[ScoreArgs](),
		"GPUGang": reflect.TypeFor[GangArgs](), "GPUBind": reflect.TypeFor[BindArgs](),
		"GPUClaims": reflect.TypeFor[ClaimsArgs](),
	} {
		for _, field := range leaves(args, "") {
			if !strings.Contains(before+want+after, fmt.Sprintf("| %s | `%s` |", plugin, field)) {
				t.Errorf("%s: no row for `%s`", plugin, field)
			}
		}
	}
}

// leaves are the JSON paths of arguments.
func leaves(typ reflect.Type, prefix string) (out []string) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		of := f.Type
		for of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		switch {
		case name == "apiVersion" || name == "kind":
		case f.Anonymous:
			out = append(out, leaves(of, prefix)...)
		case of.Kind() == reflect.Struct:
			out = append(out, leaves(of, prefix+name+".")...)
		case of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.Struct:
			out = append(out, leaves(of.Elem(), prefix+name+"[].")...)
		default:
			out = append(out, prefix+name)
		}
	}
	return out
}

// nested is an object with one field, by its path.
func nested(path, value string) *runtime.Unknown {
	text := value
	parts := strings.Split(path, ".")
	for i := len(parts) - 1; i >= 0; i-- {
		text = fmt.Sprintf(`{%q: %s}`, parts[i], text)
	}
	return &runtime.Unknown{Raw: []byte(text)}
}

// checkSettings reads each setting of a table: its bounds are taken, what lies beyond is
// refused by an error that names the field, and by default it is what the table says.
func checkSettings[A any](t *testing.T, table []setting[A]) {
	for _, s := range table {
		t.Run(s.field, func(t *testing.T) {
			read := func(value string) (got int64, err error) {
				var args A
				if err := decodeArgs(nested(s.field, value), &args); err != nil {
					t.Fatal(err)
				}
				changed := s
				if s.count != nil {
					changed.setCount = func(_ *tuning, v int) { got = int64(v) }
				} else {
					changed.setDuration = func(_ *tuning, v time.Duration) { got = int64(v) }
				}
				return got, changed.read(&args, &tuning{})
			}
			text := func(v int64) string {
				if s.count != nil {
					return fmt.Sprint(v)
				}
				return fmt.Sprintf("%q", time.Duration(v))
			}
			if s.def < s.least || s.def > s.most {
				t.Errorf("the default %d is out of bounds", s.def)
			}
			bad := []string{text(s.least - 1), text(s.most + 1)}
			if s.count == nil {
				bad = append(bad, `"soon"`, `"5"`, `"NaN"`, `"-1s"`)
			}
			for _, v := range []int64{s.least, s.most} {
				var args A
				if err := decodeArgs(nested(s.field, text(v)), &args); err != nil {
					t.Fatal(err)
				}
				if err := s.read(&args, &tuning{}); err != nil {
					t.Errorf("%s: %v", text(v), err)
				}
			}
			for _, v := range bad {
				if _, err := read(v); err == nil || !strings.HasPrefix(err.Error(), s.field+": ") {
					t.Errorf("%s: got %v, want an error that begins with the field", v, err)
				}
			}
		})
	}
}

func TestSettings(t *testing.T) {
	checkSettings(t, queueSettings())
	checkSettings(t, gangSettings())
	checkSettings(t, bindSettings())
}

// TestDefaultsAsBefore: without arguments everything is as it was when these were
// constants.
func TestDefaultsAsBefore(t *testing.T) {
	got, err := (&QueueArgs{}).tuning()
	if err != nil {
		t.Fatal(err)
	}
	if got.core != engine.DefaultTiming() || got.engine != kubeengine.DefaultTiming() || got.batch != 2*time.Minute {
		t.Errorf("%+v", got)
	}
	if got.check.every != time.Minute || got.check.again != 3*time.Second || got.check.nodes != 256 || got.state.every != time.Minute {
		t.Errorf("%+v", got)
	}
}

// TestEverySettingCounts: each setting changes what is read, so that none is without effect.
func TestEverySettingCounts(t *testing.T) {
	base, err := (&QueueArgs{}).tuning()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range queueSettings() {
		value := fmt.Sprintf("%q", time.Duration(s.def+int64(time.Millisecond)))
		if s.count != nil {
			value = fmt.Sprint(s.def + 1)
		}
		var args QueueArgs
		if err := decodeArgs(nested(s.field, value), &args); err != nil {
			t.Fatal(err)
		}
		if got, err := args.tuning(); err != nil || got == base {
			t.Errorf("%s: nothing changes, %v", s.field, err)
		}
	}
}

// TestArgumentsThatContradict: pauses that cannot be, and names that no object has.
func TestArgumentsThatContradict(t *testing.T) {
	for text, want := range map[string]string{
		`{"backoff":{"start":{"initial":"2m"}}}`:             "backoff.start: the initial pause, 2m0s, is above the longest, 1m0s",
		`{"backoff":{"veto":{"initial":"1s","max":"10ms"}}}`: "backoff.veto: ",
		`{"backoff":{"outage":{"max":"1ms"}}}`:               "backoff.outage: ",
		`{"backoff":{"veto":{"max":"500ms"}}}`:               "backoff.vetoEverywhere, backoff.veto: ",
		`{"state":{"name":"Not A Name"}}`:                    "state.name: ",
		`{"state":{"namespace":"a.b"}}`:                      "state.namespace: ",
	} {
		var args QueueArgs
		if err := decodeArgs(&runtime.Unknown{Raw: []byte(text)}, &args); err != nil {
			t.Fatal(err)
		}
		if _, err := args.tuning(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	s := NewShared(watch.Sources{})
	if err := s.tune(&QueueArgs{Audit: AuditArgs{Path: filepath.Join(t.TempDir(), "no", "folder")}}); err == nil || !strings.HasPrefix(err.Error(), "audit.path: ") {
		t.Errorf("got %v", err)
	}
}

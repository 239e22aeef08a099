package record

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

func ExampleEncode() {
	s, err := Encode(Record{
		Node: "a100-0",
		Containers: []Container{{
			Name:     "trainer",
			Resource: "nvidia.com/gpu",
			Devices:  []Device{{Index: 0, UUID: "GPU-5f7a"}, {Index: 1, UUID: "GPU-91c2"}},
		}},
	})
	fmt.Println(s, err)
	// Output:
	// {"version":1,"node":"a100-0","containers":[{"name":"trainer","resource":"nvidia.com/gpu","devices":[{"index":0,"uuid":"GPU-5f7a"},{"index":1,"uuid":"GPU-91c2"}]}]} <nil>
}

func ExampleDecode() {
	_, err := Decode(`{"version":1,"node":"a100-0","containers":[{"name":"trainer","resource":"nvidia.com/gpu","devices":[{"index":-1}]}]}`)
	fmt.Println(err)
	// Output:
	// tangram.dev/devices: containers[0].devices[0].index: must be from 0 to 1023, is -1
}

// sample is a record with all there is: an init container whose devices a
// container gets later, and a device without a UUID.
func sample() Record {
	return Record{
		Node: "a100-0",
		Containers: []Container{
			{Name: "warmup", Resource: "nvidia.com/gpu", Devices: []Device{{Index: 3, UUID: "GPU-3"}}},
			{Name: "trainer", Resource: "nvidia.com/gpu", Devices: []Device{{Index: 3, UUID: "GPU-3"}, {Index: 0}}},
		},
	}
}

const sampleText = `{"version":1,"node":"a100-0","containers":[` +
	`{"name":"warmup","resource":"nvidia.com/gpu","devices":[{"index":3,"uuid":"GPU-3"}]},` +
	`{"name":"trainer","resource":"nvidia.com/gpu","devices":[{"index":3,"uuid":"GPU-3"},{"index":0}]}]}`

func TestEncode(t *testing.T) {
	got, err := Encode(sample())
	if err != nil || got != sampleText {
		t.Errorf("Encode = %s, %v\nwant %s", got, err, sampleText)
	}
}

func TestDecode(t *testing.T) {
	for _, tc := range []struct{ name, text string }{
		{"canonical", sampleText},
		{"spaces", "\n " + strings.NewReplacer(":", " :\t", ",", "\r\n, ", "[", "[ ", "}", " }").Replace(sampleText) + " \n"},
		{"escapes", strings.NewReplacer("/", `\/`, "GPU", `\u0047P\u0055`, "node", `no\u0064e`).Replace(sampleText)},
		{"field order", `{"containers":[` +
			`{"devices":[{"uuid":"GPU-3","index":3}],"name":"warmup","resource":"nvidia.com/gpu"},` +
			`{"resource":"nvidia.com/gpu","devices":[{"index":3,"uuid":"GPU-3"},{"index":0}],"name":"trainer"}],` +
			`"node":"a100-0","version":1}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Decode(tc.text)
			if err != nil {
				t.Fatal(err)
			}
			if want := sample(); !reflect.DeepEqual(got, want) {
				t.Errorf("Decode = %+v, want %+v", got, want)
			}
		})
	}
}

// containers wraps the text of a containers array into a record.
func containers(s string) string { return `{"version":1,"node":"n","containers":[` + s + `]}` }

// deviceList wraps the text of a devices array into a record.
func deviceList(s string) string {
	return containers(`{"name":"c","resource":"r","devices":[` + s + `]}`)
}

// list joins n elements; format gets the element's number.
func list(n int, format string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(parts, ",")
}

// TestDecodeBad holds one mistake per row and the exact message it gives.
func TestDecodeBad(t *testing.T) {
	const ok = `{"name":"c","resource":"r","devices":[{"index":0}]}`
	for _, tc := range []struct{ name, text, want string }{
		// The text as a whole.
		{"empty", ``, `want an object, found the end of the text`},
		{"null", `null`, `want an object, found "n" at byte 0`},
		{"array", `[]`, `want an object, found "[" at byte 0`},
		{"number", `1`, `want an object, found "1" at byte 0`},
		{"binary", "\x00\xff", `want an object, found "\x00" at byte 0`},
		{"byte order mark", "\ufeff" + containers(ok), `want an object, found "\xef" at byte 0`},
		{"cut short", `{"version":1,"node":"n`, `node: want the end of the string, found the end of the text`},
		{"cut after a member", `{"version":1`, `want a comma or the end of the object, found the end of the text`},
		{"cut after a comma", `{"version":1,`, `want a string, found the end of the text`},
		{"trailing comma", `{"version":1,}`, `want a string, found "}" at byte 13`},
		{"no colon", `{"version" 1}`, `version: want a colon, found "1" at byte 11`},
		{"no comma", `{"version":1 "node":"n"}`, `want a comma or the end of the object, found "\"" at byte 13`},
		{"trailing garbage", containers(ok) + `x`, `want nothing after the record, found "x" at byte 91`},
		{"two records", containers(ok) + containers(ok), `want nothing after the record, found "{" at byte 91`},
		{"too long", strings.Repeat(" ", MaxSize+1), `must be at most 65536 bytes, is 65537`},
		{"deep", strings.Repeat(`{"containers":[`, 1000), `containers[0].containers: unknown field`},
		{"deep arrays", `{"containers":` + strings.Repeat(`[`, 1000), `containers[0]: want an object, found "[" at byte 15`},

		// Fields that are missing, unknown or repeated.
		{"empty object", `{}`, `version: is missing`},
		{"no node", `{"version":1,"containers":[]}`, `node: is missing`},
		{"no containers", `{"version":1,"node":"n"}`, `containers: is missing`},
		{"no name", containers(`{"resource":"r","devices":[]}`), `containers[0].name: is missing`},
		{"no resource", containers(`{"name":"c","devices":[]}`), `containers[0].resource: is missing`},
		{"no devices", containers(ok + `,{"name":"d","resource":"r"}`), `containers[1].devices: is missing`},
		{"no index", deviceList(`{"index":0},{"uuid":"GPU-1"}`), `containers[0].devices[1].index: is missing`},
		{"unknown field", `{"version":1,"gang":"g"}`, `gang: unknown field`},
		{"unknown field of a container", containers(`{"name":"c","share":50}`), `containers[0].share: unknown field`},
		{"unknown field of a device", deviceList(`{"index":0,"sms":108}`), `containers[0].devices[0].sms: unknown field`},
		{"share of nothing", deviceList(`{"index":0,"memoryMiB":0}`), `containers[0].devices[0].memoryMiB: must not be 0: leave it out`},
		{"absurd memory", deviceList(`{"index":0,"memoryMiB":99999999}`), `containers[0].devices[0].memoryMiB: must be from 1 to 16777216, is 99999999`},
		{"absurd compute", deviceList(`{"index":0,"computeMilli":1001}`), `containers[0].devices[0].computeMilli: must be from 1 to 1000, is 1001`},
		{"half a turn", deviceList(`{"index":0,"turn":2}`), `containers[0].devices[0].turn: must be 1: leave it out otherwise`},
		{"turn with amounts", deviceList(`{"index":0,"turn":1,"memoryMiB":1}`), `containers[0].devices[0].turn: a turn has no amounts`},
		{"slice with amounts", deviceList(`{"index":0,"mig":"1g.5gb","memoryMiB":1}`), `containers[0].devices[0].mig: a slice has no other amounts`},
		{"start without slice", deviceList(`{"index":0,"start":3}`), `containers[0].devices[0].start: is of a slice, and mig is missing`},
		{"start beyond the device", deviceList(`{"index":0,"mig":"1g.5gb","start":8}`), `containers[0].devices[0].start: must be from 0 to 7, is 8`},
		{"one slice twice", deviceList(`{"index":0,"mig":"1g.5gb","start":6},{"index":0,"mig":"1g.5gb","start":6}`), `containers[0].devices[1].index: device 0 is listed twice`},
		{"other case", `{"Version":1}`, `Version: unknown field`},
		{"empty field", `{"":1}`, `"": unknown field`},
		{"ugly field", "{\"a\u202e\":1}", `"a\u202e": unknown field`},
		{"long field", `{"` + strings.Repeat("a", 99) + `":1}`, strings.Repeat("a", 40) + `...: unknown field`},
		{"field twice", `{"version":1,"node":"n","node":"m"}`, `node: is given twice`},
		{"field twice, escaped", `{"version":1,"node":"n","nod\u0065":"m"}`, `node: is given twice`},
		{"device field twice", deviceList(`{"index":0,"index":1}`), `containers[0].devices[0].index: is given twice`},

		// Version.
		{"version 0", `{"version":0}`, `version: must be 1, is 0: written by another Tangram`},
		{"version 2", `{"version":2,"gang":"g"}`, `version: must be 1, is 2: written by another Tangram`},
		{"version text", `{"version":"1"}`, `version: want a whole number, found "\"" at byte 11`},
		{"version null", `{"version":null}`, `version: want a whole number, found "n" at byte 11`},

		// Strings.
		{"node empty", `{"version":1,"node":"","containers":[]}`, `node: must not be empty`},
		{"node null", `{"version":1,"node":null}`, `node: want a string, found "n" at byte 20`},
		{"node number", `{"version":1,"node":7}`, `node: want a string, found "7" at byte 20`},
		{"node long", `{"version":1,"node":"` + strings.Repeat("n", 254) + `","containers":[]}`, `node: must be at most 253 characters, is 254`},
		{"node with a space", `{"version":1,"node":"a b","containers":[]}`, `node: may hold letters, digits and -_.:/+ only, holds " "`},
		{"node in broken UTF-8", "{\"version\":1,\"node\":\"a\xff\",\"containers\":[]}", `node: may hold letters, digits and -_.:/+ only, holds "\xff"`},
		{"node beyond ASCII", `{"version":1,"node":"ä","containers":[]}`, `node: may hold letters, digits and -_.:/+ only, holds "\xc3"`},
		{"newline", "{\"version\":1,\"node\":\"a\nb\"}", `node: want a string without control characters, found "\n" at byte 22`},
		{"newline after an escape", "{\"version\":1,\"node\":\"a\\/\n\"}", `node: want a string without control characters, found "\n" at byte 24`},
		{"escaped newline", `{"version":1,"node":"a\nb"}`, `node: want an escape of a letter, digit or one of -_.:/, found "\\" at byte 22`},
		{"escaped quote", `{"version":1,"node":"a\"b"}`, `node: want an escape of a letter, digit or one of -_.:/, found "\\" at byte 22`},
		{"escaped surrogate", `{"version":1,"node":"\ud800"}`, `node: want an escape of a letter, digit or one of -_.:/, found "\\" at byte 21`},
		{"escaped NUL", `{"version":1,"node":"\u0000"}`, `node: want an escape of a letter, digit or one of -_.:/, found "\\" at byte 21`},
		{"escape with a sign", `{"version":1,"node":"\u+061"}`, `node: want an escape of a letter, digit or one of -_.:/, found "\\" at byte 21`},
		{"escape cut short", `{"version":1,"node":"\u00`, `node: want an escape of a letter, digit or one of -_.:/, found "\\" at byte 21`},
		{"cut after an escape", `{"version":1,"node":"\/`, `node: want the end of the string, found the end of the text`},

		// Containers.
		{"containers empty", containers(``), `containers: must list at least one container`},
		{"containers object", `{"version":1,"node":"n","containers":{}}`, `containers: want an array, found "{" at byte 37`},
		{"containers of strings", containers(`"c"`), `containers[0]: want an object, found "\"" at byte 38`},
		{"containers without comma", containers(ok + ok), `containers[0]: want a comma or the end of the array, found "{" at byte 89`},
		{"containers, 257", containers(list(257, `{"name":"c%d","resource":"r","devices":[{"index":0}]}`)), `containers: must list at most 256 containers, lists 257`},
		{"container twice", containers(ok + `,{"name":"d","resource":"r","devices":[{"index":1}]},` + ok), `containers[2].name: "c" is containers[0] already`},
		{"name empty", containers(`{"name":"","resource":"r","devices":[]}`), `containers[0].name: must not be empty`},
		{"name long", containers(`{"name":"` + strings.Repeat("c", 64) + `","resource":"r","devices":[]}`), `containers[0].name: must be at most 63 characters, is 64`},
		{"resource empty", containers(`{"name":"c","resource":"","devices":[]}`), `containers[0].resource: must not be empty`},
		{"resource long", containers(`{"name":"c","resource":"` + strings.Repeat("r", 318) + `","devices":[]}`), `containers[0].resource: must be at most 317 characters, is 318`},

		// Devices.
		{"devices empty", deviceList(``), `containers[0].devices: must list at least one device`},
		{"devices null", containers(`{"name":"c","resource":"r","devices":null}`), `containers[0].devices: want an array, found "n" at byte 75`},
		{"devices of numbers", deviceList(`0,1`), `containers[0].devices[0]: want an object, found "0" at byte 76`},
		{"device twice", deviceList(`{"index":0},{"index":1},{"index":0}`), `containers[0].devices[2].index: device 0 is listed twice`},
		{"devices, 65", deviceList(list(65, `{"index":%d}`)), `containers: must name at most 64 different devices`},
		{"index negative", deviceList(`{"index":-1}`), `containers[0].devices[0].index: must be from 0 to 1023, is -1`},
		{"index 1024", deviceList(`{"index":0},{"index":1024}`), `containers[0].devices[1].index: must be from 0 to 1023, is 1024`},
		{"index huge", deviceList(`{"index":18446744073709551616}`), `containers[0].devices[0].index: must be a whole number of at most 9 digits, is 18446744073709551616`},
		{"index endless", deviceList(`{"index":` + strings.Repeat("9", 999) + `}`), `containers[0].devices[0].index: must be a whole number of at most 9 digits, is ` + strings.Repeat("9", 40) + `...`},
		{"index fraction", deviceList(`{"index":1.5}`), `containers[0].devices[0].index: must be a whole number, is 1.5`},
		{"index 1.0", deviceList(`{"index":1.0}`), `containers[0].devices[0].index: must be a whole number, is 1.0`},
		{"index exponent", deviceList(`{"index":1e2}`), `containers[0].devices[0].index: must be a whole number, is 1e2`},
		{"index -0", deviceList(`{"index":-0}`), `containers[0].devices[0].index: must be a whole number, is -0`},
		{"index +1", deviceList(`{"index":+1}`), `containers[0].devices[0].index: must be a whole number, is +1`},
		{"index 01", deviceList(`{"index":01}`), `containers[0].devices[0].index: must be a whole number, is 01`},
		{"index text", deviceList(`{"index":"0"}`), `containers[0].devices[0].index: want a whole number, found "\"" at byte 85`},
		{"index missing value", deviceList(`{"index":}`), `containers[0].devices[0].index: want a whole number, found "}" at byte 85`},
		{"uuid empty", deviceList(`{"index":0,"uuid":""}`), `containers[0].devices[0].uuid: must not be empty: leave it out when it is unknown`},
		{"uuid null", deviceList(`{"index":0,"uuid":null}`), `containers[0].devices[0].uuid: want a string, found "n" at byte 94`},
		{"uuid long", deviceList(`{"index":0,"uuid":"` + strings.Repeat("u", 129) + `"}`), `containers[0].devices[0].uuid: must be at most 128 characters, is 129`},
		{"uuid with a comma", deviceList(`{"index":0,"uuid":"GPU-1,GPU-2"}`), `containers[0].devices[0].uuid: may hold letters, digits and -_.:/+ only, holds ","`},
		{"one uuid, two indexes", deviceList(`{"index":0,"uuid":"GPU-1"},{"index":1,"uuid":"GPU-1"}`), `containers[0].devices[1].uuid: "GPU-1" is device 0 and device 1`},
		{"one index, two uuids", containers(`{"name":"c","resource":"r","devices":[{"index":0,"uuid":"GPU-1"}]},{"name":"d","resource":"r","devices":[{"index":0,"uuid":"GPU-2"}]}`), `containers[1].devices[0].uuid: is "GPU-2", but device 0 was "GPU-1" before`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := Decode(tc.text)
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("Decode = %+v, %v; want an *Error", r, err)
			}
			if want := "tangram.dev/devices: " + tc.want; err.Error() != want {
				t.Errorf("error %s\n want %s", err, want)
			}
			if !reflect.DeepEqual(r, Record{}) {
				t.Errorf("Decode returned %+v with an error", r)
			}
		})
	}
}

// TestEncodeBad shows that Encode refuses what Decode would; the invariants
// themselves are one function for both, tested above.
func TestEncodeBad(t *testing.T) {
	long := sample()
	long.Containers = nil
	for i := range MaxContainers {
		c := Container{Name: strconv.Itoa(i), Resource: "nvidia.com/gpu"}
		for j := range MaxDevices {
			c.Devices = append(c.Devices, Device{Index: j})
		}
		long.Containers = append(long.Containers, c)
	}
	for _, tc := range []struct {
		name string
		r    Record
		want string
	}{
		{"zero", Record{}, `node: must not be empty`},
		{"no container", Record{Node: "n"}, `containers: must list at least one container`},
		{"quote", Record{Node: `n"`}, `node: may hold letters, digits and -_.:/+ only, holds "\""`},
		{"too long", long, `must be at most 65536 bytes, is 224446`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := Encode(tc.r)
			if err == nil || err.Error() != "tangram.dev/devices: "+tc.want || s != "" {
				t.Errorf("Encode = %q, %v; want the error %s", s, err, tc.want)
			}
		})
	}
}

func benchmarkRecord() Record {
	r := Record{Node: "a100-0", Containers: []Container{{Name: "trainer", Resource: "nvidia.com/gpu"}}}
	for i := range 8 {
		r.Containers[0].Devices = append(r.Containers[0].Devices,
			Device{Index: i, UUID: fmt.Sprintf("GPU-00000000-0000-0000-0000-%012d", i)})
	}
	return r
}

func BenchmarkEncode(b *testing.B) {
	r := benchmarkRecord()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Encode(r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	s, err := Encode(benchmarkRecord())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(s); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecodeHostile is the worst valid-looking text found: many containers
// that name many devices, the last of them wrong.
func BenchmarkDecodeHostile(b *testing.B) {
	devices := list(MaxDevices, `{"index":%d}`)
	s := containers(list(70, `{"name":"c%d","resource":"r","devices":[`+devices+`]}`) +
		`,{"name":"c","resource":"r","devices":[{"index":-1}]}`)
	if len(s) > MaxSize {
		b.Fatal(len(s))
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(s); err == nil {
			b.Fatal("accepted")
		}
	}
}

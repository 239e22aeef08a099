package record

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// FuzzDecode feeds arbitrary text. Whatever is accepted must be valid JSON that
// means the same to encoding/json, and must survive the round trip; whatever is
// refused must leave nothing behind.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		sampleText,
		strings.ReplaceAll(sampleText, "/", `\/`),
		strings.ReplaceAll(sampleText, ",", " ,\n"),
		`{"version":1,"node":"n","containers":[{"name":"c","resource":"r","devices":[{"index":1023}]}]}`,
		`{"version":1,"node":"\u006e","containers":[{"devices":[{"uuid":"GPU-1","index":0}],"name":"c","resource":"r"}]}`,
		`{"version":2,"node":"n","containers":[]}`,
		`{"version":1,"node":"n","node":"n"}`,
		`{"version":1,"node":"\ud83d\ude00"}`,
		`{"version":1,"node":"n","containers":[{"name":"c","resource":"r","devices":[{"index":-1e999}]}]}`,
		`{"containers":[[[[[[[[`, `{`, `"`, `nul`, "\xff", ``,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := Decode(s)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Problem == "" {
				t.Fatalf("error %#v is not an *Error with a problem", err)
			}
			if !reflect.DeepEqual(r, Record{}) {
				t.Fatalf("refused, but returned %+v", r)
			}
			return
		}
		checkRoundTrip(t, r)
		checkReference(t, s, r)
	})
}

// FuzzEncode builds records from arbitrary parts: what Encode accepts, Decode
// must give back.
func FuzzEncode(f *testing.F) {
	f.Add("a100-0", "trainer", "nvidia.com/gpu", 0, "GPU-1", 1, "", int64(0), 0, "", 0)
	f.Add("n", "c", "amd.com/gpu", 7, "", 1023, "", int64(4096), 300, "", 0)
	f.Add("n", "c", "nvidia.com/mig-1g.5gb", 7, "", 1023, "", int64(0), 0, "1g.5gb+me", 6)
	f.Add(`n"`, "c\\", "r\n", -1, "\x00", 1<<40, "\xff", int64(-1), 2000, "\"", 9)
	f.Fuzz(func(t *testing.T, node, name, resource string, i int, iUUID string, j int, jUUID string, memory int64, milli int, mig string, start int) {
		r := Record{Node: node, Containers: []Container{
			{Name: name, Resource: resource, Devices: []Device{{Index: i, UUID: iUUID}, {Index: j, UUID: jUUID, MemoryMiB: memory, ComputeMilli: milli, MIG: mig, Start: start}}},
			{Name: name + "2", Resource: resource, Devices: []Device{{Index: j, UUID: jUUID, Turn: milli == 7}}},
		}}
		if _, err := Encode(r); err != nil {
			return
		}
		checkRoundTrip(t, r)
	})
}

// checkRoundTrip checks that r survives encoding, in one canonical text.
func checkRoundTrip(t *testing.T, r Record) {
	t.Helper()
	s, err := Encode(r)
	if err != nil {
		t.Fatalf("Encode(%+v): %v", r, err)
	}
	again, err := Decode(s)
	if err != nil {
		t.Fatalf("Decode(%s): %v", s, err)
	}
	if !reflect.DeepEqual(again, r) {
		t.Fatalf("%+v came back as %+v", r, again)
	}
	if s2, err := Encode(again); err != nil || s2 != s {
		t.Fatalf("%s was encoded again as %s, %v", s, s2, err)
	}
	checkReference(t, s, r)
}

// checkReference reads s with encoding/json, an independent reading of the same
// text.
func checkReference(t *testing.T, s string, want Record) {
	t.Helper()
	var v struct {
		Version    int
		Node       string
		Containers []struct {
			Name     string
			Resource string
			Devices  []struct {
				Index        int
				UUID         string
				MemoryMiB    int64
				ComputeMilli int
				Turn         int
				MIG          string
				Start        int
			}
		}
	}
	dec := json.NewDecoder(strings.NewReader(s))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("encoding/json refuses %q: %v", s, err)
	}
	got := Record{Node: v.Node}
	for _, c := range v.Containers {
		k := Container{Name: c.Name, Resource: c.Resource}
		for _, d := range c.Devices {
			k.Devices = append(k.Devices, Device{d.Index, d.UUID, d.MemoryMiB, d.ComputeMilli, d.Turn == 1, d.MIG, d.Start})
		}
		got.Containers = append(got.Containers, k)
	}
	if v.Version != Version || !reflect.DeepEqual(got, want) {
		t.Fatalf("encoding/json reads %+v, Decode %+v", got, want)
	}
}

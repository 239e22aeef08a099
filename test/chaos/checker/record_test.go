package checker

import (
	"testing"
)

func TestDecodeRecord(t *testing.T) {
	good := `{"version":1,"node":"a100-0","containers":[{"name":"serve","resource":"nvidia.com/gpu","devices":[{"index":0,"memoryMiB":25000,"computeMilli":300}]},{"name":"tune","resource":"nvidia.com/mig-1g.10gb","devices":[{"index":1,"mig":"1g.10gb","start":6}]}]}`
	r, err := DecodeRecord(good)
	if err != nil || r.Node != "a100-0" || r.Containers[0].Devices[0].ComputeMilli != 300 || r.Containers[1].Devices[0].Start != 6 {
		t.Errorf("%+v, %v", r, err)
	}
	for _, bad := range []string{
		"", "{}", "[]", good + "x",
		`{"version":2,"node":"a","containers":[{"name":"m","resource":"r","devices":[{"index":0}]}]}`,
		`{"version":1,"containers":[{"name":"m","resource":"r","devices":[{"index":0}]}]}`,
		`{"version":1,"node":"a","containers":[]}`,
		`{"version":1,"node":"a","containers":[{"name":"m","resource":"r","devices":[]}]}`,
		`{"version":1,"node":"a","containers":[{"name":"m","resource":"r","devices":[{"index":0,"part":1}]}]}`,
		`{"version":1,"node":"a","containers":[{"name":"m","resource":"r","devices":[{"index":0,"mig":"1g.5gb","memoryMiB":1}]}]}`,
	} {
		if r, err := DecodeRecord(bad); err == nil {
			t.Errorf("%s was read as %+v", bad, r)
		}
	}
}

package fleet

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestParseFaults(t *testing.T) {
	tests := []struct {
		name, text string
		want       []Fault
	}{
		{"nothing", "", nil},
		{"one", "device=3,xid=79", []Fault{{Device: 3, Kind: FaultXID, Number: 79}}},
		{"fields in any order", " xid=79 , device=3 ;", []Fault{{Device: 3, Kind: FaultXID, Number: 79}}},
		{"several", "device=0,hot=95,throttle;device=all,hang", []Fault{
			{Device: 0, Kind: FaultHot, Number: 95}, {Device: 0, Kind: FaultThrottle, Word: "hw-slowdown"}, {Device: AllDevices, Kind: FaultHang},
		}},
		{"the same twice is two", "device=1,xid=31;device=1,xid=31", []Fault{
			{Device: 1, Kind: FaultXID, Number: 31}, {Device: 1, Kind: FaultXID, Number: 31},
		}},
		{"values left out", "device=1,ecc;device=1,recovery;device=1,link-down;device=1,remap", []Fault{
			{Device: 1, Kind: FaultECC, Number: 1}, {Device: 1, Kind: FaultRecovery, Word: "GPU_RESET"},
			{Device: 1, Kind: FaultLinkDown, Number: 1}, {Device: 1, Kind: FaultRemap, Word: "pending"},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseFaults(tt.text)
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Fatalf("ParseFaults = %+v, %v\nwant %+v", got, err, tt.want)
			}
			if again, err := ParseFaults(FormatFaults(got)); err != nil || !reflect.DeepEqual(again, got) {
				t.Errorf("read back: %+v, %v", again, err)
			}
		})
	}
}

func TestParseFaultsMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"xid=79":                              `entry 1 ("xid=79"): device: is missing: an index, or all`,
		"device=3":                            `entry 1 ("device=3"): names no fault; known are xid, ecc,`,
		"device=3,xid=79;device=x,gone":       `entry 2 ("device=x,gone"): device: must be an index from 0 to 15, or all, not "x"`,
		"device=16,gone":                      `device: must be an index from 0 to 15`,
		"device=-1,gone":                      `device: must be an index from 0 to 15`,
		"device=3,xid":                        `xid: must be a whole number from 1 to 999, not ""`,
		"device=3,xid=79x":                    `xid: must be a whole number from 1 to 999, not "79x"`,
		"device=3,xid=99999999999999999":      `xid: must be a whole number from 1 to 999`,
		"device=3,melt":                       `melt: unknown field; known are device, xid, ecc, hot,`,
		"device=3,gone=1":                     `gone: takes no value, has "1"`,
		"device=3,throttle=boredom":           `throttle: "boredom" is not one of hw-slowdown,`,
		"device=3,recovery=":                  `recovery: "" is not one of GPU_RESET,`,
		"device=3,device=4,gone":              `device: is given twice`,
		"device=3,xid=1,xid=2":                `xid: is given twice`,
		"device=3,no-driver":                  `no-driver: needs device=all`,
		strings.Repeat("device=1,gone;", 600): `8400 bytes long; at most 8192`,
		strings.Repeat("device=1,ecc;", 257):  `entry 257: more than 256 faults`,
	} {
		faults, err := ParseFaults(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseFaults(%.60q) = %v, %v, want %s", text, faults, err, want)
		}
	}
}

func TestFaultKindsAreDescribed(t *testing.T) {
	for _, k := range FaultKinds() {
		if FaultUsage(k) == "" {
			t.Errorf("%s has no description", k)
		}
		text := "device=all," + string(k)
		if takes, without := FaultTakesValue(k); takes && without == "" {
			text += "=1"
		}
		if _, err := ParseFaults(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if FaultUsage("melt") != "" {
		t.Error("an unknown kind is described")
	}
}

func FuzzParseFaults(f *testing.F) {
	for _, s := range []string{"device=3,xid=79;device=all,hang", "device=0,hot=95,throttle", ";;,=,", "device=all,no-driver"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		faults, err := ParseFaults(text)
		if err != nil {
			return
		}
		again, err := ParseFaults(FormatFaults(faults))
		if err != nil || !slices.Equal(again, faults) {
			t.Fatalf("%q became %v, then %v, %v", text, faults, again, err)
		}
	})
}

func TestHardware(t *testing.T) {
	for _, p := range products() {
		h := HardwareOf(p.vendor, p.model)
		if h.Driver == "" || h.PCIDeviceID == "" || h.IdleWatts <= 0 || h.MaxWatts <= h.IdleWatts || h.IdleClock <= 0 || h.MaxClock <= h.IdleClock ||
			h.MemoryClock <= 0 || h.PCIeGeneration < 3 || h.PCIeLanes != 16 || h.SlowdownCelsius < 80 || (h.ComputeCapability == "") == (p.vendor == vendorNVIDIA) {
			t.Errorf("%s: %+v", p.short, h)
		}
		for _, profile := range p.profiles {
			sms, slices := h.ProfileSMs(profile.ID), ProfileSlices(profile.Name)
			if sms < 14*slices || slices < 1 || sms > int(p.sms) {
				t.Errorf("%s: %s has %d SMs and %d slices", p.short, profile.Name, sms, slices)
			}
		}
	}
	if h := HardwareOf("nvidia", "Voodoo2"); h.MaxWatts == 0 || h.Driver == "" {
		t.Errorf("an unknown model has no figures: %+v", h)
	}
	for _, name := range []string{"", "g.", "g.1", "gpu", "0g.1", "12g.1", "xg.1gb"} {
		if n := ProfileSlices(name); n != 0 {
			t.Errorf("ProfileSlices(%q) = %d", name, n)
		}
	}
}

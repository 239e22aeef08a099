package fleet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// FaultKind is a way in which a simulated device can fail.
type FaultKind string

// The kinds, by the words of the text form.
const (
	// FaultXID: the driver reports an XID error, once; Number is which.
	FaultXID FaultKind = "xid"
	// FaultECC: uncorrectable memory errors; Number is how many.
	FaultECC FaultKind = "ecc"
	// FaultHot: the device is at least Number degrees Celsius hot.
	FaultHot FaultKind = "hot"
	// FaultThrottle: clocks are held down for the reason Word.
	FaultThrottle FaultKind = "throttle"
	// FaultGone: the device has fallen off the bus.
	FaultGone FaultKind = "gone"
	// FaultHang: calls about the device do not return until their deadline.
	FaultHang FaultKind = "hang"
	// FaultNoDriver: the node's driver is not loaded.
	FaultNoDriver FaultKind = "no-driver"
	// FaultRecovery: the driver says that the device needs the action Word.
	FaultRecovery FaultKind = "recovery"
	// FaultLinkDown: Number of the device's NVLinks are down.
	FaultLinkDown FaultKind = "link-down"
	// FaultRemap: a remapping of memory rows is pending or has failed, as Word says.
	FaultRemap FaultKind = "remap"
)

// AllDevices is the Device of a fault of the whole node.
const AllDevices = -1

// Fault is one thing that is wrong with a simulated device.
type Fault struct {
	// Device is its index, or AllDevices.
	Device int
	Kind   FaultKind
	// Number or Word is the value, by Kind; both zero for kinds without one.
	Number int
	Word   string
}

// faultRule says which values a kind takes. A kind with neither bounds nor words takes
// none.
type faultRule struct {
	kind      FaultKind
	low, high int
	words     []string
	// without is the value of a kind that is written without one; empty when it needs
	// one.
	without string
	what    string // for people
}

var faultRules = []faultRule{
	{FaultXID, 1, 999, nil, "", "XID error of that number"},
	{FaultECC, 1, 1_000_000, nil, "1", "that many uncorrectable memory errors"},
	{FaultHot, 1, 150, nil, "", "at least that many degrees Celsius"},
	{FaultThrottle, 0, 0, []string{"hw-slowdown", "hw-thermal-slowdown", "hw-power-brake-slowdown", "sw-thermal-slowdown", "sw-power-cap"}, "hw-slowdown", "clocks held down for that reason"},
	{FaultGone, 0, 0, nil, "", "fallen off the bus"},
	{FaultHang, 0, 0, nil, "", "calls do not return"},
	{FaultNoDriver, 0, 0, nil, "", "no driver on the node; only with device=all"},
	{FaultRecovery, 0, 0, []string{"GPU_RESET", "NODE_REBOOT", "DRAIN_P2P", "DRAIN_AND_RESET", "RECOVER_IMEX_DOMAIN"}, "GPU_RESET", "the driver demands that action"},
	{FaultLinkDown, 1, 64, nil, "1", "that many NVLinks are down"},
	{FaultRemap, 0, 0, []string{"pending", "failed"}, "pending", "rows that wait to be remapped, or cannot be"},
}

// takesValue says whether the kind has a value at all.
func (r faultRule) takesValue() bool { return r.high > 0 || len(r.words) > 0 }

// FaultUsage describes a kind for people: what it does and the values it takes.
func FaultUsage(kind FaultKind) string {
	i := slices.IndexFunc(faultRules, func(r faultRule) bool { return r.kind == kind })
	if i < 0 {
		return ""
	}
	if r := faultRules[i]; len(r.words) > 0 {
		return r.what + ": " + strings.Join(r.words, ", ")
	}
	return faultRules[i].what
}

// FaultKinds lists the kinds.
func FaultKinds() []FaultKind {
	kinds := make([]FaultKind, 0, len(faultRules))
	for _, r := range faultRules {
		kinds = append(kinds, r.kind)
	}
	return kinds
}

// FaultTakesValue says whether a kind has a value, and which one it has when none is
// written; empty when one must be.
func FaultTakesValue(kind FaultKind) (takes bool, without string) {
	for _, r := range faultRules {
		if r.kind == kind {
			return r.takesValue(), r.without
		}
	}
	return false, ""
}

// Limits of the text form.
const (
	maxFaultText = 8192
	maxFaults    = 256
)

// ParseFaults reads the text form: entries separated by semicolons, each of fields
// separated by commas, each field KIND or KIND=VALUE, with one field device=INDEX or
// device=all:
//
//	device=3,xid=79; device=0,hot=95,throttle; device=all,hang
//
// An entry with several kinds is several faults. The error names entry and field.
func ParseFaults(text string) ([]Fault, error) {
	if len(text) > maxFaultText {
		return nil, fmt.Errorf("%d bytes long; at most %d", len(text), maxFaultText)
	}
	var faults []Fault
	for i, entry := range strings.Split(text, ";") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue // a trailing semicolon
		}
		parsed, err := parseFaultEntry(entry)
		if err != nil {
			return nil, fmt.Errorf("entry %d (%.60q): %w", i+1, entry, err)
		}
		if faults = append(faults, parsed...); len(faults) > maxFaults {
			return nil, fmt.Errorf("entry %d: more than %d faults", i+1, maxFaults)
		}
	}
	return faults, nil
}

func parseFaultEntry(entry string) ([]Fault, error) {
	const deviceField = "device"
	var faults []Fault
	index, seen := AllDevices, map[string]bool{}
	for _, field := range strings.Split(entry, ",") {
		name, value, hasValue := strings.Cut(strings.TrimSpace(field), "=")
		if seen[name] {
			return nil, fmt.Errorf("%s: is given twice", name)
		}
		seen[name] = true
		if name == deviceField {
			var err error
			if index, err = parseFaultDevice(value); err != nil {
				return nil, fmt.Errorf("%s: %w", deviceField, err)
			}
			continue
		}
		f, err := parseFault(name, value, hasValue)
		if err != nil {
			return nil, fmt.Errorf("%.40s: %w", name, err)
		}
		faults = append(faults, f)
	}
	if !seen[deviceField] {
		return nil, fmt.Errorf("%s: is missing: an index, or all", deviceField)
	}
	if len(faults) == 0 {
		return nil, fmt.Errorf("names no fault; known are %s", knownFaults())
	}
	for i := range faults {
		if faults[i].Device = index; faults[i].Kind == FaultNoDriver && index != AllDevices {
			return nil, fmt.Errorf("%s: needs device=all: a node has one driver", FaultNoDriver)
		}
	}
	return faults, nil
}

func parseFaultDevice(value string) (int, error) {
	if value == "all" {
		return AllDevices, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 || n >= MaxGPUs {
		return 0, fmt.Errorf("must be an index from 0 to %d, or all, not %.40q", MaxGPUs-1, value)
	}
	return n, nil
}

func parseFault(name, value string, hasValue bool) (Fault, error) {
	i := slices.IndexFunc(faultRules, func(r faultRule) bool { return string(r.kind) == name })
	if i < 0 {
		return Fault{}, fmt.Errorf("unknown field; known are device, %s", knownFaults())
	}
	r := faultRules[i]
	f := Fault{Kind: r.kind}
	switch {
	case !r.takesValue():
		if hasValue {
			return Fault{}, fmt.Errorf("takes no value, has %.40q", value)
		}
		return f, nil
	case !hasValue:
		value = r.without
	}
	if len(r.words) > 0 {
		if f.Word = value; !slices.Contains(r.words, value) {
			return Fault{}, fmt.Errorf("%.40q is not one of %s", value, strings.Join(r.words, ", "))
		}
		return f, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < r.low || n > r.high {
		return Fault{}, fmt.Errorf("must be a whole number from %d to %d, not %.40q", r.low, r.high, value)
	}
	f.Number = n
	return f, nil
}

func knownFaults() string {
	words := make([]string, 0, len(faultRules))
	for _, k := range FaultKinds() {
		words = append(words, string(k))
	}
	return strings.Join(words, ", ")
}

// String is the fault's entry of the text form.
func (f Fault) String() string {
	device := "all"
	if f.Device != AllDevices {
		device = strconv.Itoa(f.Device)
	}
	text := "device=" + device + "," + string(f.Kind)
	switch {
	case f.Word != "":
		text += "=" + f.Word
	case f.Number != 0:
		text += "=" + strconv.Itoa(f.Number)
	}
	return text
}

// FormatFaults is the text form; ParseFaults reads it back.
func FormatFaults(faults []Fault) string {
	entries := make([]string, 0, len(faults))
	for _, f := range faults {
		entries = append(entries, f.String())
	}
	return strings.Join(entries, ";")
}

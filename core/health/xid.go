package health

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Class is what a driver error (XID) asks for.
type Class string

// The classes. Those in capital letters of NVIDIA's catalog keep its words.
const (
	// Ignore: changes nothing.
	Ignore Class = "IGNORE"
	// Application: an application alone can provoke it, and restarting the application
	// cures it. Counts only as described in blame.go.
	Application Class = "APPLICATION"
	// AskDriver: an application may have provoked it, or the device may need a reset.
	// Changes nothing by itself: the driver's verdict decides. Where the verdict is that
	// nothing is needed, or the driver has none, it counts as Application.
	AskDriver Class = "ASK_DRIVER"
	// RestartApp: a fault of the device that was contained; restarting the application
	// cures it.
	RestartApp Class = "RESTART_APP"
	// InspectClass: power, cabling, firmware.
	InspectClass Class = "INSPECT"
	// ResetGPU: the device must be reset.
	ResetGPU Class = "RESET_GPU"
	// RebootClass: the node must be rebooted.
	RebootClass Class = "REBOOT"
)

// Classes lists all of them, mildest first.
func Classes() []Class {
	return []Class{Ignore, Application, AskDriver, RestartApp, InspectClass, ResetGPU, RebootClass}
}

// codesOf is NVIDIA's catalog of XIDs by what it tells to do, with these differences:
//
//   - RESTART_APP of the catalog is Application here, but for 94 (a memory error that
//     was contained, so a fault of the device): all others are exceptions of engines that
//     a wrong command stream provokes.
//   - 45 (clean-up after an application ended) is Application: it follows other errors.
//   - 109 (context switch timeout) is AskDriver: the catalog says reset, but a kernel that
//     hangs provokes it.
//   - 48, 74 and 144 to 150 (memory, NVLink) have workflows in the catalog that end in a
//     reset.
//   - 54, 78 and 159 (auxiliary power, firmware, UVM) want a look.
//   - 154 tells that the driver's verdict changed. The verdict itself is read, so the
//     error changes nothing.
//   - 162 to 172 have no action defined: as the verdict says.
//
// A code that is not listed is RestartApp: new codes are new ways to fail.
var codesOf = map[Class][]int{
	Ignore: {14, 37, 38, 43, 44, 63, 66, 67, 92, 93, 106, 107, 108, 121, 137, 141, 154, 157, 160, 161},
	Application: {8, 11, 13, 25, 31, 32, 39, 40, 41, 45, 60, 68, 69, 70, 71, 72, 75, 76, 77, 80, 82, 83, 84, 85, 86, 88, 89,
		96, 97, 98, 99, 100, 101, 102, 103, 104, 105, 126, 127, 128, 129, 130, 131, 132, 133, 134, 135, 139},
	AskDriver:    {109, 162, 163, 164, 165, 166, 167, 168, 169, 170, 171, 172},
	RestartApp:   {94},
	InspectClass: {54, 78, 159},
	ResetGPU:     {46, 48, 62, 64, 74, 95, 110, 119, 120, 136, 140, 143, 144, 145, 146, 147, 148, 149, 150, 155, 156, 158},
	RebootClass:  {79, 151},
}

// wordsOf says what an error is, where that is more than its number.
var wordsOf = map[int]string{
	13: "graphics engine exception", 31: "illegal memory access", 45: "application was cleaned up", 46: "GPU stopped processing",
	48: "uncorrectable memory error", 54: "auxiliary power is not connected", 62: "internal micro-controller halt",
	63: "row remapping or page retirement recorded", 64: "row remapping or page retirement failed to be recorded",
	68: "video processor exception", 74: "NVLink error", 78: "vGPU start-up failed", 79: "GPU has fallen off the bus",
	94: "contained memory error", 95: "uncontained memory error", 109: "context switch timeout", 119: "GSP does not answer",
	120: "GSP error", 140: "unrecovered memory error", 143: "GPU initialization failed", 154: "recovery action changed",
}

// Table says what each XID asks for.
type Table map[int]Class

// DefaultTable is NVIDIA's catalog as described at codesOf; the caller may change it.
func DefaultTable() Table {
	t := Table{}
	for class, codes := range codesOf {
		for _, c := range codes {
			t[c] = class
		}
	}
	return t
}

// Class of a code; RestartApp for one that is not listed.
func (t Table) Class(code int) Class {
	if c, ok := t[code]; ok {
		return c
	}
	return RestartApp
}

// Override applies an operator's corrections, such as "109=RESET_GPU,31=IGNORE".
// An error names the entry; the table is unchanged then.
func (t Table) Override(text string) error {
	changes := Table{}
	for entry := range strings.SplitSeq(text, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		number, class, found := strings.Cut(entry, "=")
		code, err := strconv.Atoi(strings.TrimSpace(number))
		if !found || err != nil || code < 1 || code > MaxXID {
			return fmt.Errorf("%q: want <XID>=<class>, the XID from 1 to %d", entry, MaxXID)
		}
		c := Class(strings.TrimSpace(class))
		if !slices.Contains(Classes(), c) {
			return fmt.Errorf("%q: unknown class %q; the classes are %v", entry, c, Classes())
		}
		if old, twice := changes[code]; twice && old != c {
			return fmt.Errorf("%q: XID %d is given twice", entry, code)
		}
		changes[code] = c
	}
	maps.Copy(t, changes)
	return nil
}

// MaxXID is the greatest number that counts as an XID. Drivers have less than 200.
const MaxXID = 999

// Describe names an XID, such as "XID 31 (illegal memory access)".
func Describe(xid int) string {
	if w, ok := wordsOf[xid]; ok {
		return fmt.Sprintf("XID %d (%s)", xid, w)
	}
	return fmt.Sprintf("XID %d", xid)
}

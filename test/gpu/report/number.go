package report

import (
	"math"
	"strconv"
	"strings"
)

// Number reads nvidia-smi's way to write a number.
func Number(text string) (float64, error) {
	switch text {
	case "No", "Disabled", "Not Active":
		return 0, nil
	case "Yes", "Enabled", "Active":
		return 1, nil
	}
	if hex, ok := strings.CutPrefix(text, "0x"); ok {
		n, err := strconv.ParseUint(hex, 16, 64)
		return float64(n), err
	}
	return strconv.ParseFloat(text, 64)
}

// Shown writes a number for a table; "none" where there is none.
func Shown(v float64, have bool) string {
	switch {
	case !have:
		return "none"
	case v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

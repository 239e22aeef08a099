package model

import (
	"slices"
	"strings"
)

// GPUModel is a GPU product name, normalised so that the many spellings of one
// product compare equal ("Tesla V100-SXM2-32GB", "nvidia-tesla-v100", "V100")
// while different products never do ("A10" and "A100", "RTX 3080" and "RTX 3080
// Ti"). The zero value is "unknown" and matches nothing.
type GPUModel struct {
	// name is what identifies the product: its words without vendor, brand and
	// qualifiers, joined by "-".
	name string
	// qualifiers narrow a product down: memory size and form factor. Sorted.
	qualifiers string
}

// brandWords carry no information once the rest of the name is known.
var brandWords = []string{
	"amd", "edition", "generation", "geforce", "gpu", "graphics", "gtx", "instinct", "intel",
	"nvidia", "quadro", "radeon", "rtx", "shared", "tesla",
}

// formFactors are qualifiers besides memory sizes.
var formFactors = []string{"hbm", "hbm2", "hbm2e", "hbm3", "hbm3e", "nvl", "pcie", "sxm", "sxm2", "sxm3", "sxm4", "sxm5", "sxm6"}

// ParseModel normalises a product name. Words are split at anything that is
// neither letter nor digit and compared without case.
func ParseModel(s string) GPUModel {
	words := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	var name, qualifiers []string
	for _, w := range words {
		switch {
		case slices.Contains(brandWords, w):
		case slices.Contains(formFactors, w) || isMemorySize(w):
			qualifiers = append(qualifiers, w)
		default:
			name = append(name, w)
		}
	}
	slices.Sort(qualifiers)
	return GPUModel{
		name:       strings.Join(name, "-"),
		qualifiers: strings.Join(slices.Compact(qualifiers), " "),
	}
}

// isMemorySize recognises "80gb" and the like.
func isMemorySize(w string) bool {
	digits := strings.TrimSuffix(strings.TrimSuffix(w, "b"), "g")
	return digits != w && digits != "" && strings.Trim(digits, "0123456789") == ""
}

// Known says whether the name held anything that identifies a product.
func (m GPUModel) Known() bool { return m.name != "" }

// Is says whether a device of model m satisfies the wish: the same product, and
// every qualifier the wish names.
func (m GPUModel) Is(wish GPUModel) bool {
	if m.name == "" || m.name != wish.name {
		return false
	}
	if wish.qualifiers == "" {
		return true
	}
	has := strings.Fields(m.qualifiers)
	for _, q := range strings.Fields(wish.qualifiers) {
		if !slices.Contains(has, q) {
			return false
		}
	}
	return true
}

// Name is the product's normalised name without qualifiers, for tables and
// messages, for example "a100".
func (m GPUModel) Name() string { return m.name }

// String is the normalised name with qualifiers, for example "a100 80gb sxm4".
func (m GPUModel) String() string {
	if m.qualifiers == "" {
		return m.name
	}
	return m.name + " " + m.qualifiers
}

// MarshalText is the model as String has it, so that recordings can be written.
func (m GPUModel) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (m *GPUModel) UnmarshalText(text []byte) error {
	m.name, m.qualifiers, _ = strings.Cut(string(text), " ")
	return nil
}

package see

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Formats of -o.
const (
	formatTable = ""
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

// AddFormat adds -o, whose value is one of a list; empty, when it is not given, is a table.
func AddFormat(cmd *cobra.Command, value *string, help string, formats ...string) {
	cmd.Flags().VarP(&format{value, formats}, "output", "o", help)
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

// format is the value of -o.
type format struct {
	value *string
	of    []string
}

func (f *format) String() string {
	if f.value == nil { // pflag asks of a zero value what the default looks like
		return ""
	}
	return *f.value
}

func (f *format) Type() string { return strings.Join(f.of, "|") }

func (f *format) Set(s string) error {
	if !slices.Contains(f.of, s) {
		return fmt.Errorf("%q is none of %s", s, strings.Join(f.of, ", "))
	}
	*f.value = s
	return nil
}

package explain

import (
	"fmt"
	"strings"
)

// IdleClaims are ResourceClaims that hold devices though no pod uses them, on nodes where the
// gang's pods would fit without them.
type IdleClaims struct {
	// Names are "namespace/name" of those that the reader may see, sorted, a few; Seen is how
	// many there are of these, Devices how many devices they hold, whole or in part.
	Names         []string
	Seen, Devices int
	// Hidden and HiddenDevices are of those that the reader may not see.
	Hidden, HiddenDevices int
}

// helps are what can be done about them.
func (i *IdleClaims) helps(c *Case) (out []Help) {
	if i.Seen > 0 && len(i.Names) > 0 {
		who, more := Administrator, ""
		namespace, name, _ := strings.Cut(i.Names[0], "/")
		if namespace == c.Namespace {
			who = Owner
		}
		if n := i.Seen - len(i.Names); n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		out = append(out, Help{
			Who:     who,
			Text:    fmt.Sprintf("%s held by %s that no pod uses: %s%s. Delete what is not needed.", counted(i.Devices, "GPU", "is", "are"), plural(i.Seen, "ResourceClaim"), strings.Join(i.Names, ", "), more),
			Command: command("kubectl -n %s delete resourceclaim %s", namespace, name),
		})
	}
	if i.Hidden > 0 {
		out = append(out, Help{Who: Administrator, Text: fmt.Sprintf("%s held by %s of other namespaces that no pod uses.", counted(i.HiddenDevices, "GPU", "is", "are"), plural(i.Hidden, "ResourceClaim"))})
	}
	return out
}

package explain

// remedy is one thing that cures a cause.
type remedy struct {
	who Actor
	// what is the remedy in general, for the reference page; it is the help itself where say
	// is nil.
	what string
	// say is the help with the numbers of a case, and a command; an empty text: it does not
	// apply to this case. The line is zero for codes that are not of nodes.
	say func(c *Case, l Line) (text, command string)
}

// remediesFor is what helps against a cause, the surest first; a test fails for a code
// without any. Texts are whole sentences. It is a table in four parts, written as functions
// because core keeps no function literals in variables.
func remediesFor(c Code) []remedy {
	for _, part := range [...][]remedy{nodeRemedies(c), useRemedies(c), gangRemedies(c), queueRemedies(c)} {
		if part != nil {
			return part
		}
	}
	return nil
}

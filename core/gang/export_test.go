package gang

// Weighed says whether a plan was found by weighing roles against each other.
func (p Plan) Weighed() bool { return p.weighed }

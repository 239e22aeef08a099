package score

// Rated says that Rate computes an objective.
func Rated(o Objective) bool { return objectives[o].rate != nil }

package preempt

// Judged says whether a protection's row has its rule.
func Judged(p Protection) bool { return table[p].holds != nil }

// Last is the last protection.
const Last = protections - 1

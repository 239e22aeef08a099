package model

import "slices"

// FitKey is equal exactly for requests to which every node gives equal answers: the same
// devices, or the same refusal (place.Fit, ledger.View.Covers).
//
// Labels are part of it only beside affinity rules, because a request may match its own
// rule. When ledger.KeptApart is true of a request's labels, an answer depends on them too,
// and must be neither stored nor looked up under FitKey alone; that changes with the
// holders.
//
// It leaves out what only decides between nodes that can all take the request (RankKey),
// and what no placement reads: Priority, and the containers' names and resources. A test
// fails for a field that is in none of the keys and not named there as left out.
func (r *Request) FitKey() string {
	k := make(key, 0, 256)
	k.text(string(r.Vendor))
	k.number(int64(len(r.Containers)))
	for i := range r.Containers {
		c := &r.Containers[i]
		k.number(int64(c.Phase))
		k.number(int64(c.Count))
		k.part(c.Part)
	}
	k.number(int64(r.MinMemory))
	k.models(r.UseModels)
	k.models(r.AvoidModels)
	k.models(r.ProfileModels)
	k.texts(r.UseUUIDs)
	k.texts(r.AvoidUUIDs)
	k.numbers(r.UseIndexes)
	k.number(int64(len(r.Attributes)))
	for _, a := range r.Attributes {
		k.text(a.Key)
		k.texts(a.Values)
	}
	k.bond(r.Require.Bond)
	k.level(r.Require.Level)
	k.bond(r.Prefer.Bond) // it decides which devices of a node are chosen
	k.number(int64(r.Placement))
	k.number(int64(len(r.Affinity)))
	for _, rule := range r.Affinity {
		k.number(int64(rule.Kind))
		k.labels(rule.Match)
	}
	if len(r.Affinity) > 0 {
		k.labels(r.ownLabels())
	}
	k.number(r.Host.CPU)
	k.number(int64(r.Host.Memory))
	k.number(int64(len(r.Extras)))
	for _, e := range r.Extras {
		k.text(e.Name)
		k.number(e.Amount)
	}
	return string(k)
}

// ownLabels are the labels that rules can match: all but the group's.
func (r *Request) ownLabels() []Label {
	if i := slices.IndexFunc(r.Labels, func(l Label) bool { return l.Scope == groupScope }); i >= 0 {
		return slices.Concat(r.Labels[:i], r.Labels[i+1:])
	}
	return r.Labels
}

// RankKey is equal exactly for requests that, if FitKey is equal too, rank the feasible
// nodes equally. The group counts if the request prefers to be near it.
func (r *Request) RankKey() string {
	k := make(key, 0, 64)
	k.models(r.PreferModels)
	k.level(r.Prefer.Level)
	k.number(int64(r.NodePlacement))
	k.number(int64(r.TenantPriority))
	k.number(int64(r.Workload))
	if group, ok := r.Group(); ok && r.Prefer.Level.Name != "" {
		k.text(group.Value)
	}
	return string(k)
}

package ledger

import "reflect"

// UsageKey exposes the key by which usage is compared.
func UsageKey(usage []Usage) string { return spellUsage(usage) }

// OccupancyFields and BucketKeyFields are the names of these structs' fields.
func OccupancyFields() []string { return fields(reflect.TypeFor[occupancy]()) }

// BucketKeyFields is described with OccupancyFields.
func BucketKeyFields() []string { return fields(reflect.TypeFor[bucketKey]()) }

func fields(t reflect.Type) []string {
	out := make([]string, t.NumField())
	for i := range out {
		out[i] = t.Field(i).Name
	}
	return out
}

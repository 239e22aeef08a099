package pack

// lists collects keys by bucket, to be sorted by cost. The memory is kept from
// one use to the next.
type lists struct {
	byBucket [][]key
	used     []uint16
	counts   []int32 // by cost, all 0 between uses
	out      []key
}

func (l *lists) clear() {
	for _, b := range l.used {
		l.byBucket[b] = l.byBucket[b][:0]
	}
	l.used = l.used[:0]
}

// add appends a key to its bucket; true if it is the first one there.
func (l *lists) add(bucket uint16, k key) bool {
	for len(l.byBucket) <= int(bucket) {
		l.byBucket = append(l.byBucket, nil)
	}
	list := &l.byBucket[bucket]
	*list = append(*list, k)
	if len(*list) > 1 {
		return false
	}
	l.used = append(l.used, bucket)
	return true
}

// sorted is the keys of a bucket by cost, those of equal cost as they were added.
// It is valid until the next call. Counting sort: linear, and costs are few.
func (l *lists) sorted(bucket uint16) []key {
	list := l.byBucket[bucket]
	low, high := list[0].cost(), list[0].cost()
	for _, k := range list {
		low, high = min(low, k.cost()), max(high, k.cost())
	}
	if low == high {
		return list
	}
	if l.counts == nil {
		l.counts = make([]int32, MaxCost+2)
	}
	counts := l.counts[:high-low+2]
	for _, k := range list {
		counts[k.cost()-low+1]++
	}
	for i := 1; i < len(counts); i++ {
		counts[i] += counts[i-1]
	}
	l.out = append(l.out[:0], list...)
	for _, k := range list {
		at := &counts[k.cost()-low]
		l.out[*at] = k
		*at++
	}
	clear(counts)
	return l.out
}

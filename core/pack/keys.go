package pack

import (
	"hash/fnv"
	"slices"
)

// key is a node's place in a bucket: cost, then order, then ordinal, best first.
// It holds the ordinal, so it is also the way back to the node.
type key uint64

const (
	ordinalBits = 20
	orderBits   = 31
	// MaxNodes bounds an Index, so that an ordinal fits in a key.
	MaxNodes = 1 << ordinalBits
)

func newKey(cost uint16, order uint32, ordinal int) key {
	return key(cost)<<(ordinalBits+orderBits) | key(order&(1<<orderBits-1))<<ordinalBits | key(ordinal)
}

func (k key) cost() int    { return int(k >> (ordinalBits + orderBits)) }
func (k key) ordinal() int { return int(k & (MaxNodes - 1)) }

// inCost is the key without its cost: the order among equal costs.
func (k key) inCost() key { return k & (1<<(ordinalBits+orderBits) - 1) }

// chunkSize bounds what one insertion moves. 128 keys are 16 cache lines.
const chunkSize = 128

// keys is a sorted set: a list of sorted chunks, none empty. Insertion and
// removal cost two binary searches and a move within one chunk, whatever the
// size, until the list of chunks itself is long; the first key is at hand.
type keys struct{ chunks [][]key }

func (s *keys) empty() bool { return len(s.chunks) == 0 }

// first is the best key of a set that is not empty.
func (s *keys) first() key { return s.chunks[0][0] }

// chunk is the first whose last key is not below k; the last chunk if none is.
func (s *keys) chunk(k key) int {
	low, high := 0, len(s.chunks)-1
	for low < high {
		middle := int(uint(low+high) >> 1)
		if c := s.chunks[middle]; c[len(c)-1] < k {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// insert adds a key that is not in the set.
func (s *keys) insert(k key) {
	if len(s.chunks) == 0 {
		s.chunks = append(s.chunks, []key{k})
		return
	}
	i := s.chunk(k)
	at, _ := slices.BinarySearch(s.chunks[i], k)
	s.chunks[i] = slices.Insert(s.chunks[i], at, k)
	if c := s.chunks[i]; len(c) > chunkSize {
		half := len(c) / 2
		upper := slices.Clone(c[half:])
		s.chunks[i] = c[:half]
		s.chunks = slices.Insert(s.chunks, i+1, upper)
	}
}

// remove takes out a key that is in the set.
func (s *keys) remove(k key) {
	i := s.chunk(k)
	at, _ := slices.BinarySearch(s.chunks[i], k)
	if s.chunks[i] = slices.Delete(s.chunks[i], at, at+1); len(s.chunks[i]) == 0 {
		s.chunks = slices.Delete(s.chunks, i, i+1)
	}
}

// clear empties the set, and keeps the memory of its chunks.
func (s *keys) clear() {
	for i := range s.chunks {
		s.chunks[i] = s.chunks[i][:0]
	}
	s.chunks = s.chunks[:0]
}

// load fills an empty set with sorted keys.
func (s *keys) load(sorted []key) {
	for part := range slices.Chunk(sorted, chunkSize*3/4) {
		s.chunks = append(s.chunks, s.spare())
		last := &s.chunks[len(s.chunks)-1]
		*last = append(*last, part...)
	}
}

// spare is an empty chunk, if there is one from before the last clear.
func (s *keys) spare() []key {
	if len(s.chunks) < cap(s.chunks) {
		return s.chunks[:len(s.chunks)+1][len(s.chunks)][:0]
	}
	return nil
}

// Order is an order for Index.Set that depends on a node's name and on nothing
// else, so that the same fleet is filled in the same order everywhere. Names
// themselves would not do: neighbours in a list of names are often of one model.
func Order(name string) uint32 {
	h := fnv.New64a()
	h.Write([]byte(name)) // never fails
	return uint32(mix(h.Sum64()) >> (64 - orderBits))
}

// mix is the finalizer of splitmix64: every bit of the input moves every bit of
// the output.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

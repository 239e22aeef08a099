package state_test

import "testing"

// BenchmarkEncode: the largest state there can be.
func BenchmarkEncode(b *testing.B) {
	s := huge()
	for b.Loop() {
		if _, _, err := s.Encode(); err != nil {
			b.Fatal(err)
		}
	}
}

// Package mig knows how one GPU can be cut into MIG instances: which profiles a
// model offers, which placements are legal beside each other, and which one keeps
// the most possible afterwards.
//
// A state is legal when its instances cover disjoint intervals of memory slices,
// each interval is one its profile may take, and at most one instance has the
// media engines (+me). Nothing else is needed: checked over all states of all
// models here, no legal state exceeds any other resource of the GPU. With at most
// 8 slices a state is a byte, and every question is a table look-up.
//
// Read geometry.go, then catalog.go.
package mig

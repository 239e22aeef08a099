// Package kueue tests Tangram beside the real Kueue: what Kueue admits, Tangram places whole
// or not at all, and where Kueue says (topology-aware scheduling).
package kueue

// Package archtest keeps the dependency rule: which folder may import what, and
// what core may not do at all. The rule is an allow-list, one row per folder, in
// table.go; a folder without a row fails. If core may import only the standard
// library and core, its purity follows by induction; a deny-list never gets
// there.
//
// The test reads the source with go/parser: no build, no network, no build tags
// to hide behind. It checks a file's own imports, so each package must be
// covered by a row, and is.
//
// The same reading gives the figures of the source, methods per type and lines per part of
// the repository (methods.go; `make methods`, `make lines`), and compares package comments
// with their folders (reading.go).
//
// Read table.go; source.go, check.go and pure.go apply it. testdata/bad is a small
// repository that breaks every rule, with the complaint next to each line.
package archtest

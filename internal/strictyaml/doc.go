// Package strictyaml reads YAML files that people write, field by field, and collects
// everything that is wrong with them, each mistake with file, line and the path of the field.
// Unmarshalling into structs stops at the first mistake, ignores unknown fields or loses the
// line of a value that has the right type and is invalid.
//
// A caller walks the document: Object and List visit what is there, Text, Bool and Int read
// one value. After a mistake they return a zero value and the walk goes on, so the result
// counts only when Err returns nil. A field that is null is not set.
//
// Node is for callers that have no fixed schema: documents as trees of values that know their
// place (node.go).
//
// It knows no schema, no defaults and no file system.
package strictyaml

// Package dialect turns other systems' words for a GPU into core's and back:
// pods into requests and claims, Nodes and GPUNodes into inventories, chosen
// devices into the record. It holds no state and does no I/O.
//
// Each vocabulary is one file. Errors name the field of the object they are
// about, so that an adapter can show them as they are.
package dialect

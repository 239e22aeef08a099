// Package dialect translates other systems' vocabularies for GPUs to core's and back:
// pods to requests and claims, Nodes and GPUNodes to inventories, chosen devices to the
// record. It holds no state and does no I/O.
//
// Each vocabulary is one file. Errors name the field of the object they are
// about, so that an adapter can show them as they are.
package dialect

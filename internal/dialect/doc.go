// Package dialect translates other systems' vocabularies to core's and back: pods to requests,
// claims and gangs, Nodes and GPUNodes to inventories, chosen devices to the record. It holds
// no state and does no I/O. Errors name the field of the object they are about, so that an
// adapter can show them as they are.
//
// All words are in one table: words.go says what is known of a word, table.go has the
// vocabularies for devices, families.go everything else. vocabulary.go reads words that ask by
// themselves and knows the functions of the others, which are in a file for each: whole.go,
// hami.go, mig.go, volcano.go, cgpu.go, ascend.go, ascendchips.go, ascendnode.go,
// koordinator.go, kai.go.
//
// Reading order: words.go, table.go, families.go, vocabulary.go, request.go with wishes.go,
// placement.go, affinity.go, topology.go, topologywords.go, host.go, quantity.go; claim.go,
// charge.go, quota.go; node.go, gpunode.go, replicas.go, nodetopology.go, hypernode.go,
// slices.go, telemetry.go; gang.go, belongs.go, owners.go, podgroup.go, subgroups.go,
// subgrouppolicy.go with the kinds in reader.go, queue.go, kaiqueue.go, kaigang.go,
// koordgang.go, grove.go, jobset.go, kubeflow.go, kueue.go, lws.go, ray.go; tenants.go,
// fields.go, unheeded.go.
package dialect

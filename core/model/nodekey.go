package model

// KindKey is equal exactly for nodes of one kind: nodes that, without holders, give equal
// answers to every request that names no device by UUID. It leaves out the ID and UUIDs;
// Host and Extras, which are compared node by node; and which domains a node is in: a
// request only asks whether there is one at a level. A test fails for a field that is
// neither part of the key nor named there as left out.
func (n *Node) KindKey() string {
	k := make(key, 0, 64+48*len(n.Devices))
	k.number(int64(len(n.Devices)))
	for i := range n.Devices {
		k.device(&n.Devices[i])
	}
	k.number(int64(len(n.Links)))
	for _, l := range n.Links {
		k.numbers(l.Between)
		k.number(int64(l.Class))
		k.number(int64(l.Count))
	}
	k.number(int64(len(n.Attributes)))
	for _, a := range n.Attributes {
		k.text(a.Key)
		k.text(a.Value)
	}
	for _, v := range Vendors {
		k.number(int64(n.Sellable[v]))
	}
	k.number(int64(n.NUMA))
	k.yes(n.NUMAPerContainer)
	for depth, domain := range n.Domains {
		if domain != "" {
			k.number(int64(depth))
		}
	}
	return string(k)
}

func (k *key) device(d *Device) {
	k.number(int64(d.Index))
	k.text(string(d.Vendor))
	k.text(d.Model.name)
	k.text(d.Model.qualifiers)
	k.number(int64(d.Memory))
	k.number(int64(d.NUMA))
	k.number(int64(d.Health))
	k.number(int64(d.Tenants))
	k.number(int64(len(d.MIG)))
	for _, p := range d.MIG {
		k.number(int64(p.ID))
		k.text(p.Name)
		k.number(int64(p.Memory))
		k.number(int64(p.Compute))
		k.number(int64(p.Size))
		k.numbers(p.Starts)
		k.yes(p.Media)
	}
	k.number(int64(d.MIGSlices))
	k.yes(d.Fixed)
	k.yes(d.Replicated)
	k.yes(d.OnePerContainer)
	k.yes(d.NoAmounts)
	k.yes(d.Cordoned)
}

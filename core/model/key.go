package model

import "strconv"

// key builds a text that two values share exactly when all parts written to it are
// equal: numbers end with a separator, texts begin with their length.
type key []byte

func (k *key) number(n int64) { *k = append(strconv.AppendInt(*k, n, 36), ' ') }

func (k *key) yes(b bool) {
	if b {
		k.number(1)
	} else {
		k.number(0)
	}
}

func (k *key) text(s string) {
	k.number(int64(len(s)))
	*k = append(*k, s...)
}

func (k *key) texts(list []string) {
	k.number(int64(len(list)))
	for _, s := range list {
		k.text(s)
	}
}

func (k *key) numbers(list []int) {
	k.number(int64(len(list)))
	for _, n := range list {
		k.number(int64(n))
	}
}

func (k *key) models(list []GPUModel) {
	k.number(int64(len(list)))
	for _, m := range list {
		k.text(m.name)
		k.text(m.qualifiers)
	}
}

func (k *key) labels(list []Label) {
	k.number(int64(len(list)))
	for _, l := range list {
		k.text(l.Scope)
		k.text(l.Key)
		k.text(l.Value)
	}
}

func (k *key) part(p Part) {
	k.number(int64(p.Kind))
	k.number(int64(p.Memory))
	k.number(int64(p.MemoryMilli))
	k.number(int64(p.Milli))
	k.yes(p.Turn)
	k.text(p.Profile)
}

func (k *key) bond(b Bond) {
	k.number(int64(b.Link))
	k.yes(b.NUMA)
}

func (k *key) level(l Level) {
	k.text(l.Name)
	k.text(l.Label)
	k.number(int64(l.Depth))
}

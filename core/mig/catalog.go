package mig

import (
	"fmt"
	"slices"

	"github.com/tangram-dev/tangram/core/model"
)

// Lookup returns the geometry of a model by its catalog entry; nil when the model
// cannot be cut or is not known. What NVML says of a device itself (New with its
// profiles) is better: the same product name exists with other amounts.
func Lookup(m model.GPUModel, memory model.MiB) *Geometry {
	gib := int((memory + 1023) / 1024)
	for _, e := range catalog {
		if e.model == m.Name() && gib >= e.fromGiB && gib <= e.toGiB {
			g, err := New(e.slices, e.profiles())
			if err != nil {
				return nil // the catalog's own test excludes it
			}
			return g
		}
	}
	return nil
}

// Names are the names of all profiles in the catalog, as resources spell them,
// sorted.
func Names() []string {
	var out []string
	for _, e := range catalog {
		for _, p := range e.profiles() {
			out = append(out, resourceName(p.Name))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Largest is the most that a profile takes of a GPU on any model of the catalog, in
// thousandths of its memory slices: a name alone does not tell (1g.10gb is a quarter of
// an A100 of 40 GB and an eighth of one of 80 GB). 0 for a name that is not there.
func Largest(profile string) int {
	most := 0
	for _, e := range catalog {
		profiles := e.profiles()
		if i := Find(profiles, profile); i >= 0 {
			most = max(most, model.FullMilli*profiles[i].Size/e.slices)
		}
	}
	return most
}

// entry is one model: its name, the memory that tells variants apart, and its
// profiles' names and memory.
type entry struct {
	model          string
	fromGiB, toGiB int
	slices         int
	// gb are the numbers in the names of 1g, 1g with double memory, 2g, 3g, 4g and
	// 7g; on parts of four slices 1g, 2g and 4g.
	gb []int
	// mib is the usable memory of the same.
	mib []model.MiB
}

// catalog holds what hardware reported; where no report exists (GH200-144, GB200,
// B300, GB300) memory is the name's.
var catalog = []entry{
	{"a30", 20, 24, 4, []int{6, 12, 24}, []model.MiB{5952, 11968, 24000}},
	{"pro-6000-blackwell-server", 90, 96, 4, []int{24, 48, 96}, []model.MiB{24192, 48512, 97280}},
	{"a100", 36, 40, 8, []int{5, 10, 10, 20, 20, 40}, []model.MiB{4864, 9984, 9984, 20096, 20096, 40320}},
	{"a100", 72, 80, 8, []int{10, 20, 20, 40, 40, 80}, []model.MiB{9728, 19968, 19968, 40192, 40192, 80640}},
	{"a800", 72, 80, 8, []int{10, 20, 20, 40, 40, 80}, []model.MiB{9728, 19968, 19968, 40192, 40192, 80640}},
	{"h100", 72, 80, 8, []int{10, 20, 20, 40, 40, 80}, []model.MiB{9984, 20096, 20096, 40448, 40448, 81152}},
	{"h800", 72, 80, 8, []int{10, 20, 20, 40, 40, 80}, []model.MiB{9984, 20096, 20096, 40448, 40448, 81152}},
	{"h100", 88, 94, 8, []int{12, 24, 24, 47, 47, 94}, []model.MiB{11008, 22144, 22144, 47488, 47488, 95360}},
	{"h100", 95, 96, 8, []int{12, 24, 24, 48, 48, 96}, []model.MiB{11264, 23552, 23552, 47616, 47616, 95232}},
	{"gh200", 90, 96, 8, []int{12, 24, 24, 48, 48, 96}, []model.MiB{11264, 23552, 23552, 47616, 47616, 95232}},
	{"h20", 90, 96, 8, []int{12, 24, 24, 48, 48, 96}, []model.MiB{11264, 23552, 23552, 47616, 47616, 95232}},
	{"h200", 130, 141, 8, []int{18, 35, 35, 71, 71, 141}, []model.MiB{16384, 33280, 33280, 71424, 71424, 143360}},
	{"gh200", 135, 144, 8, []int{18, 36, 36, 72, 72, 144}, nil},
	{"b200", 170, 183, 8, []int{23, 45, 45, 90, 90, 180}, []model.MiB{20992, 45312, 45312, 91136, 91136, 182784}},
	{"gb200", 175, 186, 8, []int{23, 47, 47, 93, 93, 186}, nil},
	{"gb200", 187, 192, 8, []int{24, 47, 47, 95, 95, 189}, nil},
	{"b300", 260, 270, 8, []int{34, 67, 67, 135, 135, 269}, nil},
	{"gb300", 271, 288, 8, []int{35, 70, 70, 139, 139, 278}, nil},
}

// kind is the part of a profile all models of a family share.
type kind struct {
	at, id, compute, size int // at: position in entry.gb
	starts                []int
	suffix                string
}

// media is the suffix of profiles with the media engines.
const media = "+me"

// eightSlices is the shape of A100 and everything after it but the RTX PRO.
var eightSlices = []kind{
	{0, 19, 1, 1, []int{0, 1, 2, 3, 4, 5, 6}, ""},
	{0, 20, 1, 1, []int{0, 1, 2, 3, 4, 5, 6}, media},
	{1, 15, 1, 2, []int{0, 2, 4, 6}, ""},
	{2, 14, 2, 2, []int{0, 2, 4}, ""},
	{3, 9, 3, 4, []int{0, 4}, ""},
	{4, 5, 4, 4, []int{0}, ""},
	{5, 0, 7, 8, []int{0}, ""},
}

// fourSlices is the shape of A30 and RTX PRO 6000.
var fourSlices = []kind{
	{0, 14, 1, 1, []int{0, 1, 2, 3}, ""},
	{0, 21, 1, 1, []int{0, 1, 2, 3}, media},
	{1, 5, 2, 2, []int{0, 2}, ""},
	{1, 6, 2, 2, []int{0, 2}, media},
	{2, 0, 4, 4, []int{0}, ""},
}

func (e entry) profiles() []Profile {
	kinds := eightSlices
	if e.slices == 4 {
		kinds = fourSlices
	}
	out := make([]Profile, 0, len(kinds))
	for _, k := range kinds {
		memory := model.MiB(e.gb[k.at]) * 1024
		if e.mib != nil {
			memory = e.mib[k.at]
		}
		out = append(out, Profile{
			ID: k.id, Name: fmt.Sprintf("%dg.%dgb%s", k.compute, e.gb[k.at], k.suffix), Memory: memory,
			Compute: k.compute, Size: k.size, Starts: k.starts, Media: k.suffix == media,
		})
	}
	return out
}

package ground

import (
	"cmp"
	"slices"

	"github.com/tangram-dev/tangram/core/model"
)

// groundPerMember is how many nodes are looked at for each member of a large gang.
const groundPerMember = 2

// Site is a node as a place to search: how it compares with others.
type Site struct {
	ID     model.NodeID
	Domain string
	// Order and Then: lower is better.
	Order, Then int64
	// Hosts is how many members it could take.
	Hosts int
}

// Ground is the nodes of one attempt; nil for all of them. More: there are others to be
// tried after these.
type Ground struct {
	Nodes []model.NodeID
	More  bool
}

// At cuts sites into grounds and returns one of them, by number. Sites of one
// domain stay together, and such that could not take the gang are left out. The one
// after the last is all nodes: where no ground alone has room, several may have.
func At(sites []Site, fits func(model.NodeID) bool, size, members, number int) Ground {
	slices.SortFunc(sites, func(a, b Site) int {
		return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Order, b.Order), cmp.Compare(a.Then, b.Then), cmp.Compare(a.ID, b.ID))
	})
	most := len(sites)
	if most > 0 && sites[0].Domain == sites[most-1].Domain { // no more of one domain are needed
		most = (number+2)*size + 1
	}
	var fitting []Site
	for _, s := range sites {
		if len(fitting) == most {
			break
		}
		if fits(s.ID) {
			fitting = append(fitting, s)
		}
	}
	sites = fitting
	type chunk struct {
		order, then int64 // of the last site that is needed
		from        []Site
	}
	var chunks []chunk
	for len(sites) > 0 {
		end := 1
		for end < len(sites) && end < size && sites[end].Domain == sites[0].Domain {
			end++
		}
		c := chunk{from: sites[:end]}
		sites = sites[end:]
		room := 0
		for _, s := range c.from {
			if room < members {
				c.order, c.then = max(c.order, s.Order), c.then+s.Then
			}
			room += s.Hosts
		}
		if room >= members {
			chunks = append(chunks, c)
		}
	}
	slices.SortStableFunc(chunks, func(a, b chunk) int { return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.then, b.then)) })
	if len(chunks) == 0 {
		return Ground{Nodes: []model.NodeID{}} // none
	}
	var nodes []model.NodeID
	for _, c := range chunks {
		if len(nodes) > 0 && len(nodes)+len(c.from) > size {
			if number == 0 {
				return Ground{nodes, true}
			}
			number, nodes = number-1, nil
		}
		for _, s := range c.from {
			nodes = append(nodes, s.ID)
		}
	}
	if number == 0 {
		return Ground{nodes, members > 1 && len(chunks) > 1}
	}
	return Ground{}
}

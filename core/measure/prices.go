package measure

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tangram-dev/tangram/core/model"
)

// Prices is what an hour of one GPU costs, by model. The zero value has no price.
type Prices struct {
	// Currency is what people call it: "CNY".
	Currency string
	list     []price
}

type price struct {
	name  string
	model model.GPUModel
	micro int64
}

// MaxPrice bounds the price of an hour, in millionths of the currency: one million units.
const MaxPrice = int64(1_000_000_000_000)

// NewPrices makes a table of prices in millionths of a currency, by model in any
// spelling. Errors name the model.
func NewPrices(currency string, micro map[string]int64) (Prices, error) {
	out := Prices{Currency: currency}
	if currency == "" || len(currency) > 16 || !printable(currency) {
		return out, fmt.Errorf("currency: %q, want a name of 1 to 16 bytes such as CNY", currency)
	}
	for _, name := range slices.Sorted(maps.Keys(micro)) {
		m := model.ParseModel(name)
		switch v := micro[name]; {
		case !m.Known():
			return out, fmt.Errorf("perGPUHour[%s]: does not name a GPU model", name)
		case v < 0 || v > MaxPrice:
			return out, fmt.Errorf("perGPUHour[%s]: must be 0 to %d", name, MaxPrice/1_000_000)
		}
		for _, p := range out.list {
			if p.model == m {
				return out, fmt.Errorf("perGPUHour[%s]: is the same model as %s", name, p.name)
			}
		}
		out.list = append(out.list, price{name, m, micro[name]})
	}
	return out, nil
}

// Of is the price of an hour of a model, in millionths: of the entry that matches it with
// the most qualifiers, so that "A100 80GB" goes before "A100". False: it has none.
func (p *Prices) Of(m model.GPUModel) (micro int64, ok bool) {
	best := -1
	for _, x := range p.list { // sorted by name: of two that match alike the first
		if m.Is(x.model) && len(x.model.String()) > best {
			best, micro, ok = len(x.model.String()), x.micro, true
		}
	}
	return micro, ok
}

// Each calls a function with every price, by name.
func (p *Prices) Each(f func(model string, micro int64)) {
	for _, x := range p.list {
		f(ModelLabel(x.model), x.micro)
	}
}

// Set says whether there is a table at all.
func (p *Prices) Set() bool { return p.Currency != "" }

// UnknownModel is the label of devices of which no model is known.
const UnknownModel = "unknown"

// ModelLabel is a model as the value of a label, such as a100-80gb-sxm4.
func ModelLabel(m model.GPUModel) string {
	if !m.Known() {
		return UnknownModel
	}
	return strings.ReplaceAll(m.String(), " ", "-")
}

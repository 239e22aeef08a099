package answer

import (
	"slices"
	"time"

	apiquery "github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/core/measure"
)

// Usage is GPU hours and cost since this process began to lead. The lock is held to copy
// the meter's rows (2,000 at most, and as many of the past); who may see them is asked
// without it.
func (a *Answers) Usage(by []string, visible func(namespaces []string) func(string) bool) apiquery.Usage {
	now := a.Clock()
	var rows []measure.Used
	var prices measure.Prices
	var since int64
	a.look(func(v *View) {
		if m := v.Observer.Meter(); m != nil {
			rows, prices, since = m.Usage(now.UnixMilli()), *m.Prices(), m.Since()
		}
	})
	var namespaces []string
	for _, r := range rows {
		if r.Namespace != measure.Other {
			namespaces = append(namespaces, r.Namespace)
		}
	}
	slices.Sort(namespaces)
	may := visible(slices.Compact(namespaces))
	has := func(word string) bool { return slices.Contains(by, word) }
	columns := measure.Columns{Queue: has("queue"), Namespace: has("namespace"), User: has("user"), Model: has("model")}
	items, hidden := measure.Sum(rows, columns, func(namespace string) bool {
		if namespace == measure.Other { // of several namespaces together: for callers who may see all
			namespace = ""
		}
		return may(namespace)
	})
	out := apiquery.Usage{At: now, Since: time.UnixMilli(since), By: by, Currency: prices.Currency, Items: []apiquery.UsageItem{}, Hidden: usageSums(hidden)}
	out.Total = out.Hidden
	for _, x := range items {
		sums := usageSums(x)
		out.Items = append(out.Items, apiquery.UsageItem{Queue: x.Queue, Namespace: x.Namespace, User: x.User, Model: x.Model, UsageSums: sums})
		out.Total.Milli += sums.Milli
		out.Total.MilliSeconds += sums.MilliSeconds
		out.Total.CostMicro += sums.CostMicro
		out.Total.UnpricedMilliSeconds += sums.UnpricedMilliSeconds
	}
	prices.Each(func(model string, micro int64) {
		out.Prices = append(out.Prices, apiquery.Price{Model: model, Micro: micro})
	})
	return out
}

func usageSums(u measure.Used) apiquery.UsageSums {
	return apiquery.UsageSums{Milli: u.Milli, MilliSeconds: u.Amount / 1000, CostMicro: u.Cost, UnpricedMilliSeconds: u.Unpriced / 1000}
}

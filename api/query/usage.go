package query

import "time"

// Usage is GPU hours and what they cost, summed by what was asked for (ParamBy), since the leader began to count.
type Usage struct {
	At time.Time `json:"at"`
	// Since is when the leader began to count: a new one begins at 0. Older sums are
	// Prometheus' (tangram_gpu_hours_total, tangram_cost_total).
	Since time.Time `json:"since"`
	// By says what Items are told apart by, out of UsageBy.
	By []string `json:"by"`
	// Currency of all costs; empty: there is no price table, and nothing costs.
	Currency string `json:"currency,omitempty"`
	// Items are sorted by the columns of By.
	Items []UsageItem `json:"items"`
	// Hidden is the sum of namespaces whose pods the caller may not list, Total that of Items and Hidden.
	Hidden UsageSums `json:"hidden"`
	Total  UsageSums `json:"total"`
	// Prices are what an hour of one GPU costs now, by model.
	Prices []Price `json:"prices,omitempty"`
}

// UsageBy are the words of ParamBy, in the order of columns.
func UsageBy() []string { return []string{"queue", "namespace", "user", "model"} }

// UsageItem is one sum. Of the first four those are empty that were not asked for.
type UsageItem struct {
	Queue     string `json:"queue,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	User      string `json:"user,omitempty"`
	Model     string `json:"model,omitempty"`
	UsageSums
}

// UsageSums are amounts.
type UsageSums struct {
	// Milli is what is held now, in thousandths of a GPU; MilliSeconds what was held, in
	// thousandths of a GPU times seconds: 3,600,000 are one GPU hour.
	Milli        int64 `json:"milli"`
	MilliSeconds int64 `json:"milliSeconds"`
	// CostMicro is in millionths of the currency. UnpricedMilliSeconds are of models that
	// the price table does not name, and cost nothing here.
	CostMicro            int64 `json:"costMicro,omitempty"`
	UnpricedMilliSeconds int64 `json:"unpricedMilliSeconds,omitempty"`
}

// Price is what an hour of one GPU of a model costs, in millionths of the currency.
type Price struct {
	Model string `json:"model"`
	Micro int64  `json:"micro"`
}

// Package measure turns what the scheduler knows into figures for readers: GPU hours and
// what they cost, free GPUs that no request can use, devices that are held but idle, the
// time in which decisions were possible, and label values of a bounded number. It decides
// nothing about pods.
//
// Amounts are integers: GPUs in thousandths, times in milliseconds, money in millionths
// of the currency. All times are passed in.
//
// Invariants, tested: accounts add up to what each holder used, and money to its hours times
// the price, whatever is dropped for metrics; the number of accounts and of label values
// stays below its bound.
//
// Read bounded.go (label values), meter.go, usage.go and prices.go (GPU hours, cost),
// fragments.go, idle.go, uptime.go.
package measure

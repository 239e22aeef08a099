// Package dra says what dynamic resource allocation means to core: which GPUs
// ResourceSlices publish, what a pod asks for through ResourceClaims, and what allocated
// claims hold.
//
// The stock allocator of kube-scheduler proves every allocation. This package only
// translates, so that the planner chooses node and device by its own objective and the
// plugin can then let the allocator see the chosen devices alone
// (internal/kube/plugin/claims.go).
//
//	ResourceSlice   GPUs of the drivers that dialect.IsGPUDriver names become devices of
//	                core, one for each card, by UUID. Other drivers' devices are not core's.
//	ResourceClaim   not allocated: a request for whole GPUs, MIG slices or shares (Ask).
//	                allocated: a hold on devices, of the pod that carries the claim or,
//	                where no pod does, of the claim itself (Book.Carrier, Book.Holds).
//	DeviceClass     a class whose selectors name a GPU driver is a class of GPUs.
//
// # What is asked for
//
// Requests for GPUs in the claims of one pod must be of one kind: all whole, all MIG
// instances or all shares. Which devices match a class and selectors is found by the stock
// CEL evaluation, once for each different set of expressions, in one goroutine beside the
// engine (Matcher): namespaces take turns, and a pod waits for its own expressions only.
// Where all cards of a node match, the planner counts; where only some do, the request
// names the cards (at most maxNamed of them).
//
// Where core cannot express a claim (constraints between devices, mode All, more cards
// than can be named), the plan chooses the node and reserves as many GPUs there; the
// allocator chooses which, and the ledger takes what it chose (Ask.Loose).
//
// Claims that are not about GPUs, and admin access, hold nothing here and are left to the
// stock plugin.
//
// # Reading order
//
// book.go and objects.go (what is known), ask.go and implicit.go (pods to requests),
// match.go (selectors), holds.go (allocations to ledger claims).
package dra

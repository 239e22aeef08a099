// Package demand says what autoscalers are asked for: nodes of the domain in which a gang
// lacks some, and that the nodes stay which the engine keeps for gangs. It reads core and
// changes nothing there; gpu-controller carries out what it says (internal/kube/autoscale).
//
// Read demand.go.
package demand

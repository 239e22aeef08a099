// Package explain holds the reasons for every "no". A reason is data: a code,
// what was needed and the best that was found, counted over nodes and devices.
// Core fills tallies while it searches; adapters only print them.
package explain

// Package report decides what people are told, and when: complaints about objects that
// are invalid, each once, and why gangs wait, seldom enough not to drown the API server.
// It takes reasons from core as data and time as an argument; it writes nothing.
package report

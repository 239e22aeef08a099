// Package report decides what people are told, and when: that an object is invalid, once
// per problem, and why a gang waits, seldom enough to spare the API server. It takes
// reasons from core as data and the time as an argument; it writes nothing.
//
//	complaints.go  problems of objects, each reported once
//	notices.go     why gangs wait; Kind is the one word for a reason in a pod's condition
package report

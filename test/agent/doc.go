// Package agent breaks what gpu-agent depends on, one thing at a time, and shows that it
// says so in its log and metrics, goes on, and recovers. The API server and the agent
// are real processes; kubelet is played by the test (kubelet.go), because it must be
// taken away and lie at will.
package agent

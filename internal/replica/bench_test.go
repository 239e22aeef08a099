package replica

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
)

// large is a cluster of 1,000 nodes, all in use, on which 5,000 pods wait.
func large() *kubeengine.Snapshot {
	s := world(1000)
	for i := range 1000 {
		for j := range 4 {
			s.Pods = append(s.Pods, pod(fmt.Sprintf("r%d-%d", i, j), 2, on(fmt.Sprintf("n%d", i), time.Duration(i+j)*time.Second), lasting(fmt.Sprintf("%dm", 30+(i*7+j*13)%300))))
		}
	}
	for i := range 5000 {
		s.Pods = append(s.Pods, pod(fmt.Sprintf("w%d", i), 1+i%8, lasting(fmt.Sprintf("%dm", 10+i%120))))
	}
	return s
}

// BenchmarkQuestions: what a question costs on 1,000 nodes with 5,000 pending pods.
func BenchmarkQuestions(b *testing.B) {
	s := large()
	live, err := NewRun(s, DefaultLimits())
	if err != nil {
		b.Fatal(err)
	}
	if _, err := live.Settle(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Run("snapshot", func(b *testing.B) {
		for b.Loop() {
			s, err := live.Snapshot()
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(s.Held.Microseconds()), "lock-us")
		}
	})
	settled, err := live.Snapshot()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("replica", func(b *testing.B) {
		for b.Loop() {
			if _, err := NewReplica(settled); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("whatif", func(b *testing.B) {
		for b.Loop() {
			if _, err := stateOf(settled).WhatIf(b.Context(), Question{Manifest: []byte(gpus("8"))}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("forecast", func(b *testing.B) {
		for b.Loop() {
			f, err := stateOf(settled).Forecast(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(len(f.Starts)), "starts")
		}
	})
	b.Run("dump", func(b *testing.B) {
		for b.Loop() {
			var buf bytes.Buffer
			if err := WriteDump(&buf, settled, "bench"); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(buf.Len()), "bytes")
		}
	})
}

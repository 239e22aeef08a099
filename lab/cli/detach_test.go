package cli

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestFollowWorker(t *testing.T) {
	tests := []struct {
		name, said string
		wantReady  bool
		wantOut    string
		wantError  string
	}{
		{name: "ready", said: "etcd ready\nall up\n" + verdictReady + "\nlater\n", wantReady: true, wantOut: "etcd ready\nall up\n"},
		{
			name: "error of several lines", said: "etcd ready\n" + verdictError + strconv.Quote("a: b\n\tc") + "\n",
			wantOut: "etcd ready\n", wantError: "a: b\n\tc",
		},
		{name: "death without a verdict", said: "etcd ready\nkube-apis", wantOut: "etcd ready\nkube-apis"},
		{name: "verdict of garbage", said: verdictError + "garbage\n", wantError: verdictError + "garbage"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			ready, err := followWorker(strings.NewReader(tt.said), &out)
			if ready != tt.wantReady || out.String() != tt.wantOut {
				t.Errorf("ready = %v, output %q, want %v, %q", ready, out.String(), tt.wantReady, tt.wantOut)
			}
			if got := errorText(err); got != tt.wantError {
				t.Errorf("error = %q, want %q", got, tt.wantError)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// The worker's output reaches its starter until it is ready, and its log all the time.
func TestWorkerOutputIsFollowed(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var log, out bytes.Buffer
	tee := &untilClosed{log: &log, pipe: writer}
	s := newSession(upOptions{}, tee)
	s.say("one")
	tee.close(verdictReady)
	tee.close(verdictError + `"too late"`)
	s.say("two")
	if ready, err := followWorker(reader, &out); !ready || err != nil {
		t.Errorf("ready = %v, %v", ready, err)
	}
	if out.String() != "one\n" || log.String() != "one\ntwo\n" {
		t.Errorf("starter saw %q, log has %q", out.String(), log.String())
	}
}

// A starter that was interrupted no longer reads; the cluster must keep running.
func TestWorkerOutlivesItsStarter(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	tee := &untilClosed{log: &log, pipe: writer}
	newSession(upOptions{}, tee).say("one")
	tee.close(verdictReady)
	if log.String() != "one\n" {
		t.Errorf("log has %q", log.String())
	}
}

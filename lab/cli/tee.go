package cli

import (
	"io"
	"os"
	"sync"
)

// untilClosed writes to a log and, until it is closed, to a pipe as well. A reader
// of the pipe that went away is no error: the log has everything.
type untilClosed struct {
	mu   sync.Mutex
	log  io.Writer
	pipe *os.File
}

func (t *untilClosed) Write(data []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pipe != nil {
		_, _ = t.pipe.Write(data)
	}
	return t.log.Write(data)
}

// close ends the pipe with a last line. Only the first call counts.
func (t *untilClosed) close(verdict string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pipe == nil {
		return
	}
	_, _ = io.WriteString(t.pipe, verdict+"\n")
	_ = t.pipe.Close()
	t.pipe = nil
}

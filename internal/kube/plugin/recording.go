package plugin

import (
	"fmt"
	"os"

	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
	"github.com/tangram-dev/tangram/internal/version"
)

// record begins the recording that GPUQueue's arguments ask for. Each profile has these
// arguments; the first one begins it.
func (s *Shared) record(e *kubeengine.Engine, args *RecordingArgs) error {
	if args.Megabytes < 0 || args.Megabytes > maxRecording {
		return fmt.Errorf("recording.megabytes: %d, must be 0 to %d", args.Megabytes, maxRecording)
	}
	if args.Megabytes == 0 && args.File == "" || s.recording {
		return nil
	}
	s.recording = true
	var sink func([]byte)
	if args.File != "" {
		// One file for each process: a recording begins with the engine that it is of.
		f, err := os.OpenFile(fmt.Sprintf("%s.%d", args.File, os.Getpid()), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("recording.file: %w", err)
		}
		sink = func(line []byte) { _, _ = f.Write(line) } // a disk that is full ends the recording, not the scheduler
	}
	return kubeengine.Record(e, version.Get().String(), args.Megabytes<<20, sink)
}

package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/tangram-dev/tangram/lab/local"
)

// tangram up --detach starts this program again as a worker in a session of its own,
// which no terminal's hang-up reaches, and shows the worker's output until it is ready.
// The worker writes its output twice: into its log, and into a pipe that it closes when
// ready. A line of the pipe that begins with a verdict mark is the outcome, not output
// to show.
const (
	workerFlag   = "worker"
	workerPipe   = 3 // the first descriptor after standard error
	verdictReady = "\x00ready"
	verdictError = "\x00error "
)

// detach starts a worker and waits for its verdict.
func detach(ctx context.Context, o upOptions, out io.Writer) error {
	if owner, running, err := local.Running(o.dir); err != nil {
		return err
	} else if running {
		return &local.RunningError{Dir: o.dir, Owner: owner}
	}
	logs := filepath.Join(o.dir, "logs")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(logs, "tangram.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	reader, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	defer reader.Close()
	cmd, err := workerCommand(o)
	if err != nil {
		return errors.Join(err, writer.Close())
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{writer}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	if err := errors.Join(err, writer.Close()); err != nil {
		return fmt.Errorf("start the background process: %w", err)
	}
	// A user who interrupts the wait does not want the cluster.
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer stop()

	ready, err := followWorker(reader, out)
	if ready {
		return cmd.Process.Release()
	}
	if exit := cmd.Wait(); err == nil {
		err = fmt.Errorf("the background process ended (%v); see %s", exit, log.Name())
	}
	return err
}

func workerCommand(o upOptions) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	args := []string{"up", "--" + workerFlag, "--dir=" + o.dir, "--bin=" + o.bin}
	if o.fleet != "" {
		args = append(args, "--fleet="+o.fleet)
	}
	if o.demo {
		args = append(args, "--demo")
	}
	if o.monitoring {
		args = append(args, "--monitoring")
	}
	for _, name := range o.operators {
		args = append(args, "--operators="+name)
	}
	if o.dra {
		args = append(args, "--dra")
	}
	if o.bare {
		args = append(args, "--bare")
	}
	return exec.Command(self, args...), nil
}

// followWorker copies the worker's text until its verdict or its end.
func followWorker(pipe io.Reader, out io.Writer) (ready bool, err error) {
	lines := bufio.NewReader(pipe)
	for {
		line, err := lines.ReadString('\n')
		text := strings.TrimSuffix(line, "\n")
		switch {
		case text == verdictReady:
			return true, nil
		case strings.HasPrefix(text, verdictError):
			message, err := strconv.Unquote(strings.TrimPrefix(text, verdictError))
			if err != nil {
				message = text
			}
			return false, errors.New(message)
		case line != "":
			if _, err := io.WriteString(out, line); err != nil {
				return false, err
			}
		}
		if err != nil {
			return false, nil // the pipe's end without a verdict: the caller looks at the exit
		}
	}
}

// work is the main function of the worker.
func work(ctx context.Context, o upOptions, out io.Writer) error {
	var stat syscall.Stat_t
	if err := syscall.Fstat(workerPipe, &stat); err != nil || stat.Mode&syscall.S_IFMT != syscall.S_IFIFO {
		// Started by hand, that descriptor may be one of Go's own.
		return fmt.Errorf("--%s is for tangram up --detach only", workerFlag)
	}
	pipe := os.NewFile(workerPipe, "starter")
	// Children that inherited the pipe would keep the starter waiting.
	syscall.CloseOnExec(workerPipe)
	tee := &untilClosed{log: out, pipe: pipe}
	err := newSession(o, tee).run(ctx, func() { tee.close(verdictReady) })
	if err != nil {
		tee.close(verdictError + strconv.Quote(err.Error()))
	}
	return err
}

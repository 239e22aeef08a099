package see

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tangram-dev/tangram/internal/ask"
	"github.com/tangram-dev/tangram/internal/terminal"
)

func newDump(c Config) *cobra.Command {
	var a *asking
	var file string
	var force bool
	cmd := &cobra.Command{
		Use:   "dump",
		Short: "Write what why and whatif need to be answered elsewhere into a file",
		Long: `Write the scheduler's state into a file, from which tangram why --dump and tangram whatif
--dump answer without the cluster: for a support engineer, or for a question about the past.

The file names nodes, namespaces, pods, queues and users, and has neither environment
variables nor secrets. It needs the right to get /query/v1/dump, which viewers do not have.`,
		Example: `  tangram dump -f cluster.dump
  tangram dump -f - | ssh support 'cat > cluster.dump'
  tangram why train -n ml-team --dump cluster.dump`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.saveDump(cmd.Context(), a.screen(cmd), file, force)
		},
	}
	a = newAsking(c, cmd)
	cmd.Flags().StringVarP(&file, "filename", "f", "", "file to write; - is standard output")
	_ = cmd.MarkFlagRequired("filename")
	cmd.Flags().BoolVar(&force, "force", false, "replace a file that exists")
	return cmd
}

func (a *asking) saveDump(ctx context.Context, s *terminal.Screen, file string, force bool) error {
	if file == "-" && s.Terminal {
		return &ask.UsageError{Message: "-f -: a dump is not for a terminal: name a file, or redirect the output"}
	}
	if _, err := os.Stat(file); file != "-" && err == nil && !force {
		return &ask.UsageError{Message: fmt.Sprintf("-f: %s exists (--force replaces it)", file)}
	}
	if dir := filepath.Dir(file); file != "-" {
		if info, err := os.Stat(dir); err != nil {
			return &ask.UsageError{Message: "-f: " + err.Error()}
		} else if !info.IsDir() {
			return &ask.UsageError{Message: fmt.Sprintf("-f: %s is no folder", dir)}
		}
	}
	client, err := a.connect()
	if err != nil {
		return err
	}
	p := s.Progress("waiting for the dump")
	defer p.End()
	in, err := client.Dump(ctx)
	if err != nil {
		return err
	}
	defer in.Close()
	counted := &counter{Reader: in, each: func(n int64) { p.Set("dump: %d KiB", n>>10) }}
	if file == "-" {
		_, err := io.Copy(s.Out, counted)
		return err
	}
	if err := writeWhole(file, counted); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Err, "%s: %d bytes\n", terminal.Clean(file), counted.n)
	return err
}

// writeWhole writes a file that is there whole or not at all, for its owner alone.
func writeWhole(file string, in io.Reader) error {
	f, err := os.CreateTemp(filepath.Dir(file), ".tangram-dump-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = io.Copy(f, in)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", file, err), os.Remove(f.Name()))
	}
	return nil
}

// counter counts what is read.
type counter struct {
	io.Reader
	n    int64
	each func(int64)
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	c.each(c.n)
	return n, err
}

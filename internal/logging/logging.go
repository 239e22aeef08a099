// Package logging gives our programs Kubernetes' own logging flags: --logging-format (text
// or json), -v, --vmodule. Everything that a program or a library says goes the same way:
// klog, log/slog and the standard logger.
package logging

import (
	"context"
	"fmt"
	"log/slog"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // the JSON format
	"k8s.io/klog/v2"
)

// Options are the logging flags of a program.
type Options struct{ configuration *logsapi.LoggingConfiguration }

// New registers the flags of a command.
func New(cmd *cobra.Command) *Options {
	o := &Options{logsapi.NewLoggingConfiguration()}
	logsapi.AddFlags(o.configuration, cmd.Flags())
	return o
}

// Run makes a command, after its logging flags are applied, run a function until SIGINT or
// SIGTERM ends its context.
func Run(cmd *cobra.Command, run func(context.Context) error) {
	o := New(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		if err := o.Apply(); err != nil {
			return err
		}
		return run(ctx)
	}
}

// Apply makes all that is logged from now on follow the flags. It is called once, before
// anything is logged and before goroutines start.
func (o *Options) Apply() error {
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged // a test runs several commands
	if err := logsapi.ValidateAndApply(o.configuration, nil); err != nil {
		return fmt.Errorf("logging flags: %w", err)
	}
	logs.InitLogs() // the standard logger
	slog.SetDefault(slog.New(logr.ToSlogHandler(klog.Background())))
	return nil
}

package see

import (
	"context"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/internal/ask"
	"github.com/tangram-dev/tangram/internal/terminal"
)

func newWeb(c Config) *cobra.Command {
	var a *asking
	var address string
	var port int
	var noOpen bool
	cmd := &cobra.Command{
		Use:   "web",
		Short: "Open the web page, with the kubeconfig's credentials",
		Long: `Serve the web page on this machine and open it in a browser, until Ctrl-C. Its questions
are asked with the credentials of the kubeconfig: it shows what you may see.

Others cannot use it: the page listens on a loopback address, wants a secret that is in the
printed URL (a cookie from then on), and answers to no other host name.`,
		Example: `  tangram web
  tangram web --no-open --address 127.0.0.1 --port 8080     # for ssh -L 8080:127.0.0.1:8080`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return a.web(ctx, a.screen(cmd), address, port, !noOpen)
		},
	}
	a = newAsking(c, cmd)
	cmd.Flags().StringVar(&address, "address", "", "loopback address to listen on (default: one of its own, so that no other local server gets the cookie)")
	cmd.Flags().IntVar(&port, "port", 0, "port to listen on (default: a free one)")
	cmd.Flags().BoolVar(&noOpen, "no-open", false, "print the URL, and open no browser")
	return cmd
}

func (a *asking) web(ctx context.Context, s *terminal.Screen, address string, port int, open bool) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	// A question first: without rights or a leader there is nothing to show.
	if _, err := a.answer(ctx, s, ask.About(query.PathFleet)); err != nil {
		return err
	}
	page, err := servePage(a.config.Page, client, address, port)
	if err != nil {
		return err
	}
	defer page.Close()
	s.Line(terminal.Plain, "The web page is at %s", page.URL)
	s.Line(terminal.Dim, "Keep the URL to yourself: it shows what you may see. Ctrl-C ends it.")
	if open && s.Terminal {
		if err := page.Open(); err != nil {
			s.Line(terminal.Dim, "No browser was opened: %v", err)
		}
	}
	if err := s.Failed(); err != nil {
		return err
	}
	select {
	case err := <-page.served:
		return err
	case <-ctx.Done():
		return nil
	}
}

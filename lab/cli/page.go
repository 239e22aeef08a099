package cli

import (
	"os"

	"github.com/tangram-dev/tangram/internal/ask"
	"github.com/tangram-dev/tangram/internal/cli/see"
	"github.com/tangram-dev/tangram/internal/terminal"
	"github.com/tangram-dev/tangram/internal/web"
)

// startPage serves the web page as `tangram web` does, with the cluster's own kubeconfig,
// until the session stops.
func (s *session) startPage() error {
	page, err := see.ServePage(web.Handler, ask.Options{Kubeconfig: s.cluster.Kubeconfig()})
	if err != nil {
		return err
	}
	s.page = page
	before := s.beforeStop
	s.beforeStop = func() {
		page.Close()
		if before != nil {
			before()
		}
	}
	return nil
}

// openPage opens a browser where a person sees it: on a terminal with a display. A cluster
// in the background opens none.
func (s *session) openPage() {
	if s.options.noOpen || s.options.worker || !terminal.New(os.Stdin, s.out, os.Stderr).Terminal {
		return
	}
	_ = s.page.Open() // without a display or a browser the URL is printed all the same
}

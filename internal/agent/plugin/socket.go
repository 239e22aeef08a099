package plugin

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/klog/v2"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/tangram-dev/tangram/internal/agent/socket"
)

// run serves and registers until the context ends. It registers again when kubelet's
// socket is another one (kubelet restarted), when its own socket is gone (kubelet
// deletes all on its start), and when kubelet hung up: it does so when a stream of an
// older registration of the same resource ends, even though a newer one is in place.
func (s *service) run(ctx context.Context) {
	log := klog.FromContext(ctx).WithValues("resource", s.resource)
	kubelet := filepath.Join(s.plugin.o.Dir, "kubelet.sock")
	var (
		own        *socket.Socket
		registered socket.File   // kubelet's socket at the last registration
		at         time.Time     // of the last registration
		pause      time.Duration // after failures
		failing    bool
	)
	defer func() { own.Stop() }()
	for n := 0; ; {
		if own != nil && own.Gone() {
			log.Info("The socket was deleted; serving on a new one", "path", own.Path)
			own.Stop()
			own, registered = nil, socket.File{}
		}
		if own == nil {
			n++
			var err error
			path := filepath.Join(s.plugin.o.Dir, s.plugin.socketName(s.resource, n))
			if own, err = socket.Listen(path, func(g *grpc.Server) { api.RegisterDevicePluginServer(g, s) }); err != nil {
				log.Error(err, "Could not serve the resource to kubelet; will retry", "socket", path)
			}
		}
		// Kubelet opens its stream right after a registration.
		silent := !s.streaming() && time.Since(at) > 10*s.plugin.o.Poll
		if now := socket.FileAt(kubelet); own != nil && now != (socket.File{}) && (now != registered || silent) {
			err := s.register(ctx, kubelet, filepath.Base(own.Path))
			at = time.Now()
			if err != nil {
				registered = socket.File{}
				pause = min(max(2*pause, s.plugin.o.Poll/4), 10*s.plugin.o.Poll)
				if !failing {
					log.Info("Kubelet refused the registration; will retry", "err", err)
				}
				failing = true
			} else {
				registered, pause, failing = now, 0, false
				log.Info("Registered with kubelet", "socket", own.Path)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-s.hung:
			// A moment for kubelet to finish, and for a stream that takes this one's place.
			select {
			case <-ctx.Done():
				return
			case <-time.After(s.plugin.o.Poll / 10):
			}
			if !s.streaming() {
				registered = socket.File{}
			}
		case <-time.After(s.plugin.o.Poll + pause):
		}
	}
}

func (s *service) register(ctx context.Context, kubelet, endpoint string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := grpc.NewClient("unix://"+kubelet, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = api.NewRegistrationClient(conn).Register(ctx, &api.RegisterRequest{
		Version: api.Version, Endpoint: endpoint, ResourceName: s.resource, Options: options(),
	})
	if err != nil {
		return fmt.Errorf("register at %s: %w", kubelet, err)
	}
	return nil
}

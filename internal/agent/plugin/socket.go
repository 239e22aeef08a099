package plugin

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/klog/v2"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// file tells a file from another of the same name: inodes are used again, times are not.
type file struct {
	inode uint64
	since syscall.Timespec
}

// fileAt is the file at a path; zero when there is none.
func fileAt(path string) file {
	info, err := os.Lstat(path)
	if err != nil {
		return file{}
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return file{inode: 1}
	}
	return file{s.Ino, s.Ctim}
}

// listener is the resource's gRPC server on its socket.
type listener struct {
	path   string
	inode  uint64
	server *grpc.Server
}

func (s *service) listen(n int) (*listener, error) {
	path := filepath.Join(s.plugin.o.Dir, s.plugin.socketName(s.resource, n))
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, s)
	go func() { _ = server.Serve(l) }() // ends with stop
	return &listener{path, fileAt(path).inode, server}, nil
}

// gone says whether somebody deleted the socket.
func (l *listener) gone() bool { return fileAt(l.path).inode != l.inode }

func (l *listener) stop() {
	l.server.Stop() // removes the socket, too
	if !l.gone() {
		os.Remove(l.path)
	}
}

// run serves and registers until the context ends. It registers again when kubelet's
// socket is another one (kubelet restarted), when its own socket is gone (kubelet
// deletes all on its start), and when kubelet hung up: it does so when a stream of an
// older registration of the same resource ends, even though a newer one is in place.
func (s *service) run(ctx context.Context) {
	log := klog.FromContext(ctx).WithValues("resource", s.resource)
	kubelet := filepath.Join(s.plugin.o.Dir, "kubelet.sock")
	var (
		own        *listener
		registered file          // kubelet's socket at the last registration
		at         time.Time     // of the last registration
		pause      time.Duration // after failures
		failing    bool
	)
	defer func() {
		if own != nil {
			own.stop()
		}
	}()
	for n := 0; ; {
		if own != nil && own.gone() {
			log.Info("The socket was deleted; serving on a new one", "path", own.path)
			own.stop()
			own, registered = nil, file{}
		}
		if own == nil {
			n++
			l, err := s.listen(n)
			if err != nil {
				log.Info("Cannot serve; trying again", "err", err)
			} else {
				own = l
			}
		}
		// Kubelet opens its stream right after a registration.
		silent := !s.streaming() && time.Since(at) > 10*s.plugin.o.Poll
		if now := fileAt(kubelet); own != nil && now != (file{}) && (now != registered || silent) {
			err := s.register(ctx, kubelet, filepath.Base(own.path))
			at = time.Now()
			if err != nil {
				registered = file{}
				pause = min(max(2*pause, s.plugin.o.Poll/4), 10*s.plugin.o.Poll)
				if !failing {
					log.Info("Kubelet did not accept the registration; trying again", "err", err)
				}
				failing = true
			} else {
				registered, pause, failing = now, 0, false
				log.Info("Registered with kubelet", "socket", own.path)
				if s.plugin.o.Registered != nil {
					s.plugin.o.Registered(s.resource)
				}
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
				registered = file{}
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

package plugin

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/internal/agent/socket"
)

// Granter decides what kubelet's calls are answered with.
type Granter interface {
	// Preferred chooses size of the available IDs, with mustInclude among them; fewer, or
	// none, leave the choice to kubelet.
	Preferred(ctx context.Context, resource string, available, mustInclude []string, size int) []string
	// Allocate says what a container on these devices needs. An error fails the pod.
	Allocate(ctx context.Context, resource string, ids []string) (device.Answer, error)
	// PreStart is called before each start of a container on these devices. An error
	// keeps it from starting; kubelet tries again.
	PreStart(ctx context.Context, resource string, ids []string) error
}

// Options say how a node's plugin works.
type Options struct {
	// Dir is where kubelet has its socket and looks for those of plugins.
	Dir     string
	Granter Granter
	// Poll is how often sockets are looked at; 0 means one second.
	Poll time.Duration
	// Settle is how long after an answer to Allocate the list of devices is sent again; 0
	// means two seconds.
	Settle time.Duration
}

// Plugin sells the resources of one node to kubelet.
type Plugin struct {
	o   Options
	tag string // of this process's sockets

	mu       sync.Mutex
	services map[string]*service
	added    chan struct{}
	// answered is when an Allocate was answered last; settling says that its list is still
	// to be sent.
	answered time.Time
	settling bool
}

// New prepares; Run starts it.
func New(o Options) *Plugin {
	o.Poll, o.Settle = cmp.Or(o.Poll, time.Second), cmp.Or(o.Settle, 2*time.Second)
	return &Plugin{o: o, tag: socket.Tag(), services: map[string]*service{}, added: make(chan struct{}, 1)}
}

// Set says what is sold from now on. A resource that is not among the offers any more
// has no devices: kubelet has no word for taking a resource back.
func (p *Plugin) Set(offers []device.Offer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sold := map[string]bool{}
	for _, o := range offers {
		sold[o.Resource] = true
		s := p.services[o.Resource]
		if s == nil {
			s = newService(p, o.Resource)
			p.services[o.Resource] = s
			select {
			case p.added <- struct{}{}:
			default:
			}
		}
		s.set(o.Devices)
	}
	for resource, s := range p.services {
		if !sold[resource] {
			s.set(nil)
		}
	}
}

// settle lets the list of a resource be sent again a while after an answer to Allocate.
//
// Kubelet writes which containers have which devices to its checkpoint with each answer to Allocate and
// with each list. It copies them under a lock and writes them without, so that of two at a
// time the older copy may be written last: then a kubelet that restarts does not know of
// the container that was just given devices, takes them for free, and cannot start it
// again. A list that comes when nothing else happens makes the checkpoint right.
func (p *Plugin) settle(s *service) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answered = time.Now()
	if p.settling {
		return
	}
	p.settling = true
	time.AfterFunc(p.o.Settle, func() { p.settled(s) })
}

// settled sends the list, and once more if there were answers meanwhile.
func (p *Plugin) settled(s *service) {
	p.mu.Lock()
	left := p.o.Settle - time.Since(p.answered)
	p.settling = left > 0
	p.mu.Unlock()
	s.again()
	if left > 0 {
		time.AfterFunc(left, func() { p.settled(s) })
	}
}

// Run serves until the context ends, then closes and removes its sockets, so that
// kubelet knows at once.
func (p *Plugin) Run(ctx context.Context) error {
	if err := os.MkdirAll(p.o.Dir, 0o750); err != nil {
		return fmt.Errorf("kubelet's device plugin directory: %w", err)
	}
	socket.Sweep(filepath.Join(p.o.Dir, socketPrefix+"*.sock"))
	var running sync.WaitGroup
	defer running.Wait()
	started := map[string]bool{}
	for {
		p.mu.Lock()
		for resource, s := range p.services {
			if !started[resource] {
				started[resource] = true
				running.Go(func() { s.run(ctx) })
			}
		}
		p.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil
		case <-p.added:
		}
	}
}

const socketPrefix = "tangram-"

// Served says whether another agent serves a resource here, now: one that this one takes
// over from, during an upgrade.
func (p *Plugin) Served(resource string) bool {
	paths, _ := filepath.Glob(filepath.Join(p.o.Dir, fmt.Sprintf("%s%.40s-*.sock", socketPrefix, clean(resource))))
	for _, path := range paths {
		if !strings.Contains(path, p.tag) && socket.Answers(path) {
			return true
		}
	}
	return false
}

// clean is a resource's name as part of a file name.
func clean(resource string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '_'
	}, resource)
}

// socketName is the file name of a resource's socket, short enough for any directory.
func (p *Plugin) socketName(resource string, n int) string {
	return fmt.Sprintf("%s%.40s-%s-%d.sock", socketPrefix, clean(resource), p.tag, n)
}

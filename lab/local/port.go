package local

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports come from below Linux's ephemeral range (32768 to 60999): a port of that
// range may be taken by any outgoing connection between the moment it is found
// free and the moment a child binds it.
const (
	firstPort = 20000
	lastPort  = 32767
)

// handedOut remembers this process's ports: two components that are configured
// before either of them binds must not get the same one.
var handedOut sync.Map // global: the ports of a machine are one set

// FreePort returns a loopback TCP port that nothing listens on. It never returns
// the same port twice in one process. Safe for concurrent use.
func FreePort() (int, error) {
	const attempts = 1000 // far more than the listeners of any sane machine
	for range attempts {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return 0, err
		}
		if _, taken := handedOut.LoadOrStore(port, struct{}{}); !taken {
			return port, nil
		}
	}
	return 0, errors.New("find a free loopback port: none of those tried is free")
}

// Package socket serves gRPC on Unix sockets in folders of kubelet, which other programs
// share: kubelet deletes sockets at its start, and an agent that was killed leaves its own.
package socket

import (
	"crypto/rand"
	"encoding/hex"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"k8s.io/klog/v2"
)

// Tag tells this process's sockets from those of another agent, which may run beside it during
// an upgrade: two that shared a name would delete each other's for ever.
func Tag() string {
	var tag [4]byte
	_, _ = rand.Read(tag[:]) // never fails
	return hex.EncodeToString(tag[:])
}

// File tells a file from another of the same name: inodes are used again, times are not. The
// zero value is no file.
type File struct {
	inode uint64
	since syscall.Timespec
}

// FileAt is the file at a path.
func FileAt(path string) File {
	info, err := os.Lstat(path)
	if err != nil {
		return File{}
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return File{inode: 1}
	}
	return File{s.Ino, s.Ctim}
}

// Socket is a gRPC server on a Unix socket.
type Socket struct {
	Path   string
	inode  uint64
	server *grpc.Server
}

// Listen serves on a path until Stop.
func Listen(path string, register func(*grpc.Server)) (*Socket, error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer()
	register(server)
	go func() { _ = server.Serve(l) }() // ends with Stop
	return &Socket{path, FileAt(path).inode, server}, nil
}

// Gone says whether the socket was deleted, or replaced by another.
func (s *Socket) Gone() bool { return FileAt(s.Path).inode != s.inode }

// Stop ends the server and removes its socket. A nil Socket has none.
func (s *Socket) Stop() {
	if s == nil {
		return
	}
	if !s.Gone() {
		_ = os.Remove(s.Path) // first: kubelet is to know at once
	}
	s.server.Stop()
}

// Answers says whether a process serves at a path.
func Answers(path string) bool {
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// Sweep removes sockets that no process serves.
func Sweep(pattern string) {
	old, _ := filepath.Glob(pattern)
	for _, path := range old {
		if !Answers(path) && os.Remove(path) == nil { // another agent may be sweeping, too
			klog.Background().Info("Removed a socket that no process serves", "path", path)
		}
	}
}

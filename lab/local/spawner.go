package local

import (
	"os/exec"
	"runtime"
	"syscall"
)

// A spawner starts child processes that die with this one, also when this one is
// killed outright.
//
// The kernel sends a child its parent-death signal when the *thread* that forked
// it ends, and Go ends and creates threads as it likes. So all children of a
// cluster are forked by one goroutine that owns its thread for as long as the
// cluster lives.
type spawner struct {
	requests chan spawnRequest
}

type spawnRequest struct {
	cmd    *exec.Cmd
	result chan<- error
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan spawnRequest)}
	go func() {
		// Never unlocked: the thread must not serve anything else, and ends here.
		runtime.LockOSThread()
		for r := range s.requests {
			r.result <- r.cmd.Start()
		}
	}()
	return s
}

// start starts the command in its own process group, so that a terminal's Ctrl-C
// reaches only this process and the children are stopped in order.
func (s *spawner) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	result := make(chan error, 1)
	s.requests <- spawnRequest{cmd: cmd, result: result}
	return <-result
}

// close ends the spawner's thread. Children that still run are killed by it.
func (s *spawner) close() { close(s.requests) }

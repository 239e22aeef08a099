package local

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// The test binary is also the programs that the tests run: roleVar says which.
const roleVar = "TANGRAM_LOCAL_TEST_ROLE"

const (
	roleSleep    = "sleep"    // runs until it gets SIGTERM
	roleStubborn = "stubborn" // ignores SIGTERM
	roleCrash    = "crash"    // fails at once
	roleFork     = "fork"     // leaves a child of its own behind
	roleParent   = "parent"   // runs a cluster directory with one sleeping child
)

func TestMain(m *testing.M) {
	switch os.Getenv(roleVar) {
	case "":
		os.Exit(m.Run())
	case roleSleep:
		fmt.Println("sleeping")
		forever()
	case roleStubborn:
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ignoring SIGTERM")
		forever()
	case roleCrash:
		fmt.Println("cannot go on: the reason")
		os.Exit(3)
	case roleFork:
		forkAndWait()
	case roleParent:
		parent()
	}
}

// forkAndWait starts a grandchild and prints its process id.
func forkAndWait() {
	p, err := os.StartProcess(os.Args[0], os.Args[:1], &os.ProcAttr{
		Env: append(os.Environ(), roleVar+"="+roleSleep), Files: []*os.File{nil, nil, nil},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(p.Pid)
	forever()
}

// parent prints its child's process id and waits to be killed. Meanwhile it ends
// threads, as Go may: a child must not die with the thread that forked it.
func parent() {
	c, err := open(Options{Dir: os.Args[1]})
	if err != nil {
		panic(err)
	}
	p, err := c.Run(context.Background(), program("child", roleSleep))
	if err != nil {
		panic(err)
	}
	for range 50 {
		done := make(chan struct{})
		go func() {
			runtime.LockOSThread() // ends with its thread
			close(done)
		}()
		<-done
	}
	time.Sleep(100 * time.Millisecond)
	fmt.Println(p.Pid())
	forever()
}

// program is the test binary in a role.
func program(name, role string) Program {
	return Program{Name: name, Path: os.Args[0], Env: []string{roleVar + "=" + role}, Restart: true}
}

// forever blocks until the process is killed. Not select {}: without cgo there is no other
// thread, and Go takes it for a deadlock.
func forever() {
	for {
		time.Sleep(time.Hour)
	}
}

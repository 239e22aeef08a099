package mps

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// The test binary is also a fake nvidia-cuda-mps-control and its server, chosen by the
// name it is called by.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "nvidia-cuda-mps-control":
		os.Exit(fakeControl())
	case serverProgram:
		forever := make(chan os.Signal, 1)
		signal.Notify(forever, os.Interrupt)
		<-forever
		os.Exit(0)
	}
	// With the race detector every process sleeps a second at its end, the fakes too.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// behaviour is what a test tells the fakes of one GPU to do; it is read again with each
// connection.
func behaviour(pipe string) string {
	data, _ := os.ReadFile(filepath.Join(filepath.Dir(pipe), "behaviour"))
	return string(data)
}

func fakeControl() int {
	pipe := os.Getenv(envPipe)
	if slices.Contains(os.Args, "-f") {
		return fakeDaemon(pipe)
	}
	conn, err := net.Dial("unix", filepath.Join(pipe, "control"))
	if err != nil {
		fmt.Println("Cannot find MPS control daemon process")
		return 1
	}
	defer conn.Close()
	if _, err := io.Copy(conn, os.Stdin); err != nil {
		return 1
	}
	if _, err := io.Copy(os.Stdout, conn); err != nil {
		return 1
	}
	return 0
}

// fake is the state of a fake daemon.
type fake struct {
	mu       sync.Mutex
	pipe     string
	servers  []*exec.Cmd
	clients  []int
	settings []string // commands that set something, in order
	percent  string
	memory   string
}

func fakeDaemon(pipe string) int {
	if behaviour(pipe) == "refuse" {
		fmt.Fprintln(os.Stderr, "An instance of this daemon is already running")
		return 1
	}
	listener, err := net.Listen("unix", filepath.Join(pipe, "control"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	f := &fake{pipe: pipe, percent: "100.0", memory: "100000G"}
	f.settings = append(f.settings, "started "+strings.Join(os.Args[1:], " ")+" for "+os.Getenv("CUDA_VISIBLE_DEVICES"))
	if err := os.WriteFile(filepath.Join(pipe, pidFile), []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
		return 1
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			return 1
		}
		go f.serve(conn)
	}
}

func (f *fake) serve(conn net.Conn) {
	defer conn.Close()
	command, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return
	}
	if behaviour(f.pipe) == "hang" {
		select {}
	}
	fmt.Fprintln(conn, f.answer(strings.Fields(command)))
}

func (f *fake) answer(words []string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	line := strings.Join(words, " ")
	switch words[0] {
	case "get_server_list":
		var out []string
		for _, server := range f.servers {
			out = append(out, strconv.Itoa(server.Process.Pid))
		}
		return strings.Join(out, "\n")
	case "start_server":
		self, _ := os.Executable()
		server := &exec.Cmd{Path: self, Args: []string{serverProgram}}
		if err := server.Start(); err != nil {
			return err.Error()
		}
		f.servers = append(f.servers, server)
		return ""
	case "get_default_active_thread_percentage":
		return f.percent
	case "set_default_active_thread_percentage":
		if behaviour(f.pipe) == "stubborn" {
			return "permission denied"
		}
		f.percent = words[1] + ".0"
		f.settings = append(f.settings, line)
		return f.percent
	case "get_default_device_pinned_mem_limit":
		return f.memory
	case "set_default_device_pinned_mem_limit":
		if behaviour(f.pipe) == "generous" {
			return "100000G"
		}
		if mib, err := strconv.Atoi(strings.TrimSuffix(words[2], "M")); err == nil {
			f.memory = fmt.Sprintf("%dG", mib/1024) // so answers driver 580
		}
	case "get_client_list":
		var out []string
		for _, client := range f.clients {
			out = append(out, strconv.Itoa(client))
		}
		return strings.Join(out, "\n")
	case "fake_connect":
		pid, _ := strconv.Atoi(words[1])
		f.clients = append(f.clients, pid)
		return ""
	case "fake_settings":
		return strings.Join(f.settings, "\n")
	case "terminate_client":
		if behaviour(f.pipe) != "immortal" {
			pid, _ := strconv.Atoi(words[2])
			if !slices.Contains(f.clients, pid) {
				return fmt.Sprintf("Invalid process %d!\n1", pid)
			}
			f.clients = slices.DeleteFunc(f.clients, func(client int) bool { return client == pid })
		}
		f.settings = append(f.settings, line)
		return "0"
	case "quit":
		if behaviour(f.pipe) == "deaf" {
			return ""
		}
		for _, server := range f.servers {
			_ = server.Process.Kill()
			_ = server.Wait()
		}
		os.Exit(0)
	}
	f.settings = append(f.settings, line)
	return ""
}

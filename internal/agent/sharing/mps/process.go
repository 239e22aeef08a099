package mps

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// serverProgram is the program that the daemon starts for its clients.
const serverProgram = "nvidia-cuda-mps-server"

// strays are processes of a daemon or of its servers with this pipe folder:
// what an earlier agent or a daemon that died left behind.
func strays(program, pipe string) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []int
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil && pid != os.Getpid() && isDaemon(pid, program, pipe) {
			out = append(out, pid)
		}
	}
	return out
}

// isDaemon: a living process is the daemon's program or its server's, with this pipe
// folder. Clients have another program, and in containers another path.
func isDaemon(pid int, program, pipe string) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	arguments, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil || len(arguments) == 0 {
		return false // gone, or a zombie
	}
	name, _, _ := bytes.Cut(arguments, []byte{0})
	if base := filepath.Base(string(name)); base != serverProgram && base != filepath.Base(program) {
		return false
	}
	variables, err := readEnvironment("/proc", pid)
	return err == nil && variables[envPipe] == pipe
}

// readEnvironment is the environment that a process began with. Of a variable that is
// given twice the first counts, as for getenv.
func readEnvironment(proc string, pid int) (map[string]string, error) {
	data, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "environ"))
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, variable := range strings.Split(string(data), "\x00") {
		name, value, _ := strings.Cut(variable, "=")
		if _, twice := out[name]; !twice {
			out[name] = value
		}
	}
	return out, nil
}

// kill ends processes at once.
func kill(pids []int) {
	for _, pid := range pids {
		// An error means that it is gone already.
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

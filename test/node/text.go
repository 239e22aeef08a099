package node

import (
	"os"
	"regexp"
	"strings"
)

// tail is the last lines of a file.
func tail(path string, lines int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return lastLines(strings.Split(strings.TrimRight(string(data), "\n"), "\n"), lines)
}

var complaint = regexp.MustCompile(`^[EF]\d{4} |level=(error|fatal|panic)`)

// usual are complaints about containers that have ended, which kubelet and containerd
// have about every one.
var usual = regexp.MustCompile(`ContainerStatus .*not found|memory cgroup (config|limits) for the pod|ListAndWatch ended`)

// complaints are the last lines of a log that report errors.
func complaints(path string, lines int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	var found []string
	for line := range strings.Lines(string(data)) {
		if complaint.MatchString(line) && !usual.MatchString(line) {
			found = append(found, strings.TrimRight(line, "\n"))
		}
	}
	return lastLines(found, lines)
}

func lastLines(all []string, lines int) string {
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

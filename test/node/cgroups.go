package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const cgroupMount = "/sys/fs/cgroup"

// cgroupPrefix begins the name of every control group that a test node makes.
const cgroupPrefix = "tangram-node-"

// cgroupHierarchies are the roots in which a group has to be made: one with cgroup v2,
// one for each controller with v1.
func cgroupHierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroupMount, "cgroup.controllers")); err == nil {
		return []string{cgroupMount}, nil
	}
	entries, err := os.ReadDir(cgroupMount)
	if err != nil {
		return nil, fmt.Errorf("has no control groups: %w", err)
	}
	var roots []string
	for _, e := range entries {
		root := filepath.Join(cgroupMount, e.Name())
		if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err == nil && e.IsDir() {
			roots = append(roots, root)
		}
	}
	if len(roots) == 0 {
		return nil, errors.New("has no control groups below " + cgroupMount)
	}
	return roots, nil
}

// eachHierarchy does something at the root of every hierarchy of control groups.
func eachHierarchy(do func(root string) error) error {
	roots, err := cgroupHierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		if err := do(root); err != nil {
			return err
		}
	}
	return nil
}

// cgroupsWritable tries to make a control group.
func cgroupsWritable() error {
	return eachHierarchy(func(root string) error {
		probe, err := os.MkdirTemp(root, cgroupPrefix+"probe-")
		if err != nil {
			return fmt.Errorf("does not let us make control groups: %w", err)
		}
		return os.Remove(probe)
	})
}

// makeCgroup makes a group in every hierarchy.
func makeCgroup(name string) error {
	return eachHierarchy(func(root string) error { return os.MkdirAll(filepath.Join(root, name), 0o755) })
}

// removeCgroup removes a group with all below it once its processes have ended. Its
// processes must have been killed: the kernel lets go of them a little later.
func removeCgroup(name string) error {
	deadline := time.Now().Add(10 * time.Second)
	return eachHierarchy(func(root string) error {
		for {
			err := removeTree(filepath.Join(root, name))
			if err == nil || time.Now().After(deadline) {
				return err
			}
			time.Sleep(20 * time.Millisecond) // there is no event for it
		}
	})
}

// removeTree removes the folders of a group from the leaves up; files in it go with
// their folder. A group with processes is not removed.
func removeTree(group string) error {
	var folders []string
	err := filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && entry.IsDir() {
			folders = append(folders, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	for i := len(folders) - 1; i >= 0; i-- {
		if err := os.Remove(folders[i]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// removeLeftCgroups removes groups that nodes of killed tests left. A group in use
// cannot be removed, so a node that runs elsewhere keeps its own.
func removeLeftCgroups() {
	roots, err := cgroupHierarchies()
	if err != nil {
		return
	}
	for _, root := range roots {
		entries, err := os.ReadDir(root)
		if err != nil {
			continue
		}
		for _, e := range entries {
			// Not fresh: a node that has just made its group has no processes in it yet.
			info, err := e.Info()
			if err == nil && strings.HasPrefix(e.Name(), cgroupPrefix) && time.Since(info.ModTime()) > time.Hour {
				_ = removeTree(filepath.Join(root, e.Name()))
			}
		}
	}
}

// Package atomicfile replaces files in one step: a reader sees the old content or the
// new one, never a part, whatever fails in between (full disk, read-only file system,
// power).
package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// prefix begins the names of files that are not finished. Such a file is left behind
// only when the process dies; Sweep removes it.
const prefix = ".tangram-"

// Write replaces the file at path with data, creating its folder when there is none.
// check is called with the path of the finished but not yet visible file, and an error
// of it stops the replacement; nil checks nothing. On any error the old file is as it
// was.
func Write(path string, data []byte, mode os.FileMode, check func(path string) error) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	file, err := os.CreateTemp(dir, prefix+"*.tmp")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write %s: %w", path, err), ignoreAbsent(os.Remove(file.Name())))
		}
	}()
	_, err = file.Write(data)
	// A full disk may be noticed as late as here.
	err = errors.Join(err, file.Chmod(mode), file.Sync(), file.Close())
	if err != nil {
		return err
	}
	if check != nil {
		if err := check(file.Name()); err != nil {
			return err
		}
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	return syncFolder(dir)
}

// Sweep removes what writers that died left behind in a folder. It must not be called while
// another writer is at work there.
func Sweep(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ignoreAbsent(err)
	}
	var errs []error
	for _, entry := range entries {
		if name := entry.Name(); strings.HasPrefix(name, prefix) && strings.HasSuffix(name, ".tmp") {
			errs = append(errs, ignoreAbsent(os.Remove(filepath.Join(dir, name))))
		}
	}
	return errors.Join(errs...)
}

// syncFolder makes a rename last beyond a power failure.
func syncFolder(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

func ignoreAbsent(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

package audit

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Stdout is the path that means standard output.
const Stdout = "-"

// File is a file that is rotated: when a write would make it larger than MaxBytes, it
// becomes PATH.1, PATH.1 becomes PATH.2, and so on, and the oldest beyond MaxFiles is
// removed. So the log never takes more than MaxBytes times MaxFiles, but for one line.
// Written by one goroutine.
type File struct {
	path     string
	maxBytes int64
	maxFiles int
	file     *os.File
	size     int64
}

// Open opens a file for appending, made if it is not there, or standard output. MaxFiles
// counts the file that is written.
func Open(path string, maxBytes int64, maxFiles int) (io.Writer, error) {
	if path == Stdout {
		return os.Stdout, nil
	}
	f := &File{path: path, maxBytes: maxBytes, maxFiles: maxFiles}
	return f, f.open()
}

// open opens the present file. The owner alone may read it: it names users and images.
func (f *File) open() error {
	file, err := os.OpenFile(f.path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a directory", f.path)
	}
	if err != nil {
		_ = file.Close()
		return err
	}
	f.file, f.size = file, info.Size()
	return f.mend()
}

// mend ends the last line, which a process that was killed may have left half written.
func (f *File) mend() error {
	if f.size == 0 {
		return nil
	}
	last := make([]byte, 1)
	if _, err := f.file.ReadAt(last, f.size-1); err != nil || last[0] == '\n' {
		return nil // of what cannot be read (a pipe, a device) nothing is mended
	}
	n, err := f.file.Write([]byte("\n"))
	f.size += int64(n)
	return err
}

// Write appends a line. A failed write leaves no half line behind.
func (f *File) Write(line []byte) (int, error) {
	if f.file == nil {
		if err := f.open(); err != nil {
			return 0, err
		}
	}
	if f.size > 0 && f.size+int64(len(line)) > f.maxBytes {
		if err := f.rotate(); err != nil {
			return 0, err
		}
	}
	n, err := f.file.Write(line)
	if err != nil {
		if n > 0 { // the disk is full: what was written of the line is taken back
			_ = f.file.Truncate(f.size)
		}
		return 0, err
	}
	f.size += int64(n)
	return n, nil
}

// rotate renames the files and begins a new one. If a file cannot be renamed, nothing is
// written until it can: the log must not fill the disk.
func (f *File) rotate() error {
	_ = f.file.Close()
	f.file = nil
	var problem error
	if f.maxFiles == 1 {
		problem = os.Remove(f.path)
	}
	for i := f.maxFiles - 1; i > 0; i-- {
		err := os.Rename(f.name(i-1), f.name(i))
		if err != nil && !errors.Is(err, os.ErrNotExist) && problem == nil {
			problem = err
		}
	}
	if err := f.open(); err != nil {
		return err
	}
	return problem
}

// name is a file's: the present one is number 0.
func (f *File) name(i int) string {
	if i == 0 {
		return f.path
	}
	return fmt.Sprintf("%s.%d", f.path, i)
}

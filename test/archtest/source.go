package archtest

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// source is one Go file.
type source struct {
	File   string // relative to the root, with slashes
	Folder string
	Test   bool // its name ends in _test.go
	Lines  int
	Syntax *ast.File
	Set    *token.FileSet // of Syntax's positions
}

// sources parses every Go file below root that the go command's "./..." covers, in the
// order of their paths. Nested modules are separate programs and left out.
func sources(root string) ([]source, error) {
	var out []source
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != root && ignored(name) {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		syntax, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parse %s: %w", rel, err)
		}
		out = append(out, source{
			File: rel, Folder: path.Dir(rel), Test: strings.HasSuffix(rel, "_test.go"),
			Lines: bytes.Count(text, []byte("\n")), Syntax: syntax, Set: set,
		})
		return nil
	})
	return out, err
}

// ignored says whether the go command's "./..." would skip a folder.
func ignored(folder string) bool {
	base := filepath.Base(folder)
	// bin has programs, and files of other projects.
	if base == "testdata" || base == "vendor" || base == "bin" || base[0] == '.' || base[0] == '_' {
		return true
	}
	_, err := os.Stat(filepath.Join(folder, "go.mod"))
	return !errors.Is(err, fs.ErrNotExist)
}

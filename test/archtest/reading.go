package archtest

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	// fileName is a Go file as package comments name it: in the package's own folder, with a
	// path from there or from the root, or as a pattern ("spawner_*.go").
	fileName = regexp.MustCompile(`[A-Za-z0-9_*][A-Za-z0-9_*/-]*\.go\b`)
	// listStart begins a reading list.
	listStart = regexp.MustCompile(`\b(Read|Reading order)\b[^.]*\.go\b`)
)

// ReadingLists compares the package comments below root with their folders. A comment must
// not name a file that does not exist. A comment with a reading list ("Read a.go, then
// b.go", "Reading order: ...", or a list of at least half of the files) names every file of
// the folder, tests and generated files apart; "spawner_*.go" names several.
func ReadingLists(root string) ([]Violation, error) {
	files, err := sources(root)
	if err != nil {
		return nil, err
	}
	folders := map[string][]source{}
	for _, f := range files {
		folders[f.Folder] = append(folders[f.Folder], f)
	}
	var found []Violation
	for _, f := range files {
		if f.Syntax.Doc == nil {
			continue
		}
		text := f.Syntax.Doc.Text()
		report := func(format string, args ...any) {
			line := f.Set.Position(f.Syntax.Package).Line
			found = append(found, Violation{File: f.File, Line: line, Text: fmt.Sprintf(format, args...)})
		}
		named := fileName.FindAllString(text, -1)
		for _, name := range named {
			if !exists(root, f.Folder, name) {
				report("the package comment names %s, which does not exist", name)
			}
		}
		var missing []string
		count := 0
		for _, other := range folders[f.Folder] {
			base := path.Base(other.File)
			if other.Test || other.File == f.File || strings.HasPrefix(base, "zz_generated") {
				continue
			}
			count++
			if !slices.ContainsFunc(named, func(pattern string) bool { ok, _ := path.Match(pattern, base); return ok }) {
				missing = append(missing, base)
			}
		}
		isList := listStart.MatchString(strings.ReplaceAll(text, "\n", " ")) || count > 2 && len(missing) <= count/2
		for _, name := range missing {
			if isList {
				report("the reading list does not name %s", name)
			}
		}
	}
	return found, nil
}

// exists says whether a name in a package comment of folder is a file there or, with a path,
// below the root.
func exists(root, folder, name string) bool {
	for _, at := range []string{filepath.Join(root, folder, name), filepath.Join(root, name)} {
		if strings.Contains(name, "*") {
			if found, err := filepath.Glob(at); err == nil && len(found) > 0 {
				return true
			}
		} else if _, err := os.Stat(at); err == nil {
			return true
		}
	}
	return false
}

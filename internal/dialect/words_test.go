package dialect

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// source is the code of packages, as far as words in it are concerned.
type source struct {
	t         *testing.T
	files     map[string]*ast.File
	fset      *token.FileSet
	constants map[string]ast.Expr
}

// parseWords reads a folder's code; constants of the folders are known by their names.
func parseWords(t *testing.T, folders ...string) *source {
	s := &source{t: t, files: map[string]*ast.File{}, fset: token.NewFileSet(), constants: map[string]ast.Expr{}}
	for _, folder := range folders {
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
				continue
			}
			file, err := parser.ParseFile(s.fset, filepath.Join(folder, e.Name()), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			s.files[filepath.Join(folder, e.Name())] = file
			for _, d := range file.Decls {
				g, ok := d.(*ast.GenDecl)
				if !ok || g.Tok != token.CONST {
					continue
				}
				for _, spec := range g.Specs {
					v := spec.(*ast.ValueSpec)
					for i, name := range v.Names {
						if i < len(v.Values) {
							s.constants[name.Name] = v.Values[i]
						}
					}
				}
			}
		}
	}
	return s
}

// value is the text of a constant expression; false for other expressions.
func (s *source) value(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		a, okA := s.value(e.X)
		b, okB := s.value(e.Y)
		return a + b, okA && okB && e.Op == token.ADD
	case *ast.Ident:
		if c, ok := s.constants[e.Name]; ok {
			return s.value(c)
		}
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok && x.Name == "names" {
			return s.value(e.Sel)
		}
	case *ast.CallExpr: // string(name)
		if f, ok := e.Fun.(*ast.Ident); ok && f.Name == "string" && len(e.Args) == 1 {
			return s.value(e.Args[0])
		}
	}
	return "", false
}

// qualified is a word with the domain of a project. A domain alone is no word.
var qualified = regexp.MustCompile(`^(runai|[a-z0-9-]+(\.[a-z0-9-]+)+)/[A-Za-z0-9][A-Za-z0-9._-]*$`)

// notWords look like words and are none.
var notWords = map[string]string{
	"cloud.google.com/gke-accelerator": "describes nodes: only remedies look at it",
	"k8s.amazonaws.com/accelerator":    "describes nodes: only remedies look at it",

	"kai.scheduler/gpu-fraction": "the name under which a record lists a share",
	"hami.io/use-":               "completed by the name of a card: a pattern",
	"hami.io/no-use-":            "completed by the name of a card: a pattern",
	"hami.io/node-register-":     "completed by the name of a card: a pattern",
}

func knownWord(word string, kinds ...WordKind) bool {
	if _, ok := notWords[word]; ok {
		return true
	}
	for _, kind := range kinds {
		if _, ok := FindWord(kind, word); ok {
			return true
		}
		for _, w := range Words() { // a beginning that the code completes
			if begin, _, ok := strings.Cut(w.Name, "*"); ok && w.Kind == kind && begin == word {
				return true
			}
		}
	}
	return false
}

// TestWords: every word that this package's code names is in the table, and every label,
// annotation and resource that it looks up is there under its kind.
func TestWords(t *testing.T) {
	s := parseWords(t, ".", filepath.Join("..", "..", "api", "names"))
	found := map[WordKind]int{}
	for name, file := range s.files {
		if name == "table.go" || name == "families.go" || strings.Contains(name, "names") {
			continue // the table itself
		}
		complain := func(n ast.Node, word string, kind any) {
			t.Errorf("%s: %q, a word of kind %v, is not in Words: tangram migrate check would take it for unknown", s.fset.Position(n.Pos()), word, kind)
		}
		look := func(words, key ast.Expr) {
			kind, ok := mapOfWords(words)
			word, constant := s.value(key)
			if !ok || !constant || word == "" {
				return
			}
			found[kind]++
			if !knownWord(word, kind) {
				complain(key, word, kind)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ImportSpec:
				return false
			case *ast.Field:
				if n.Tag != nil {
					return false
				}
			case *ast.IndexExpr:
				look(n.X, n.Index)
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "numberIn" {
					look(n.Args[0], n.Args[1])
				}
				if word, ok := s.resourceArgument(n); ok {
					found[Resource]++
					if !knownWord(word, Resource) {
						complain(n, word, Resource)
					}
				}
			case *ast.BasicLit, *ast.SelectorExpr, *ast.Ident:
				if word, ok := s.value(n.(ast.Expr)); ok && qualified.MatchString(word) && !isGroupVersion(word) && !knownWord(word, Label, Annotation, Resource) {
					complain(n, word, "any")
				}
			}
			return true
		})
	}
	// The walk must see what it is about.
	if found[Label] < 40 || found[Annotation] < 45 || found[Resource] < 15 {
		t.Errorf("looked up %v: the walk misses most of them", found)
	}
}

func isGroupVersion(word string) bool {
	_, version, _ := strings.Cut(word, "/")
	return regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`).MatchString(version)
}

// mapOfWords says which words are the keys of an expression.
func mapOfWords(e ast.Expr) (WordKind, bool) {
	name := ""
	switch e := e.(type) {
	case *ast.SelectorExpr:
		name = e.Sel.Name
	case *ast.Ident:
		name = e.Name
	case *ast.CallExpr:
		if f, ok := e.Fun.(*ast.SelectorExpr); ok {
			name = f.Sel.Name
		}
	}
	switch name {
	case "Labels", "GetLabels", "labels", "NodeSelector":
		return Label, true
	case "Annotations", "GetAnnotations", "annotations", "words":
		return Annotation, true
	}
	return "", false
}

// resourceArgument is the resource that a call reads.
func (s *source) resourceArgument(c *ast.CallExpr) (string, bool) {
	at := -1
	switch f := c.Fun.(type) {
	case *ast.Ident:
		at = map[string]int{"amount": 2, "quantity": 1}[f.Name]
		if f.Name != "amount" && f.Name != "quantity" {
			return "", false
		}
	case *ast.SelectorExpr:
		x, ok := f.X.(*ast.Ident)
		if at = 0; !ok || x.Name != "w" || f.Sel.Name != "number" && f.Sel.Name != "present" {
			return "", false
		}
	default:
		return "", false
	}
	if at >= len(c.Args) {
		return "", false
	}
	return s.value(c.Args[at])
}

// TestWordsAreDistinct: a word of a kind has one row, and those that are refused or ignored
// say what to do.
func TestWordsAreDistinct(t *testing.T) {
	seen := map[Word]bool{}
	for _, w := range Words() {
		key := Word{Kind: w.Kind, Name: w.Name}
		if seen[key] {
			t.Errorf("%s %s is there twice", w.Kind, w.Name)
		}
		seen[key] = true
		if (w.Effect == Refuses || w.Effect == Ignores) != (w.Note != "") {
			t.Errorf("%s %s: effect %s, note %q", w.Kind, w.Name, w.Effect, w.Note)
		}
	}
}

func TestFindWord(t *testing.T) {
	for _, c := range []struct {
		kind   WordKind
		name   string
		effect Effect
	}{
		{Resource, "nvidia.com/mig-1g.10gb", Reads},
		{Resource, "huawei.com/ascend310p-memory", Reads},
		{Annotation, "hami.io/use-Ascend310P-uuid", Reads},
		{Annotation, "hami.io/vgpu-devices-to-allocate", Writes},
		{Annotation, "hami.io/Ascend310P-devices-allocated", Writes},
		{Annotation, "gpu-fraction.limit", Refuses},
		{Annotation, "kai.scheduler/topology", Ignores},
		{Label, "volcano.sh/preemptable", ""}, // an annotation
		{Annotation, "hami.io/use--uuid", ""},
		{Annotation, "volcano.sh/sla-waiting-time", ""},
		{Resource, "", ""},
	} {
		w, _ := FindWord(c.kind, c.name)
		if w.Effect != c.effect {
			t.Errorf("%s %q: effect %q, want %q", c.kind, c.name, w.Effect, c.effect)
		}
	}
}

// readers are the methods that read a field, or a list of resources, of an object.
var readers = []string{"text", "number", "float", "count", "flag", "duration", "amounts", "level", "in", "list", "listOf", "value", "NestedStringSlice"}

// TestFields: every field that the readers of the kinds in KnownKinds name is a field there.
func TestFields(t *testing.T) {
	segments := map[string]bool{"status": true, "state": true}
	for _, k := range KnownKinds() {
		for _, f := range k.Fields {
			for part := range strings.SplitSeq(f, ".") {
				segments[strings.TrimSuffix(part, "[]")] = true
			}
		}
	}
	s, checked := parseWords(t, "."), 0
	for _, name := range []string{"queue.go", "kaiqueue.go", "kaigang.go", "podgroup.go", "subgrouppolicy.go", "topologywords.go", "hypernode.go"} {
		for _, d := range s.files[name].Decls {
			if f, ok := d.(*ast.FuncDecl); ok && slices.Contains([]string{"kubeGroup", "kaiSize"}, f.Name.Name) {
				continue // kinds of Kubernetes itself
			}
			ast.Inspect(d, func(n ast.Node) bool {
				c, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				called := ""
				switch f := c.Fun.(type) {
				case *ast.SelectorExpr:
					called = f.Sel.Name
				case *ast.Ident:
					called = f.Name
				}
				if !slices.Contains(readers, called) {
					return true
				}
				for _, arg := range c.Args {
					path, ok := s.value(arg)
					for field := range strings.SplitSeq(path, ".") {
						if ok && field != "" && !strings.Contains(path, "/") { // an annotation has a slash
							checked++
							if !segments[field] {
								t.Errorf("%s: field %q is not in KnownKinds: tangram migrate check would take it for unknown", s.fset.Position(arg.Pos()), field)
							}
						}
					}
				}
				return true
			})
		}
	}
	if checked < 50 {
		t.Errorf("%d fields checked: the walk misses most of them", checked)
	}
}

func TestKnows(t *testing.T) {
	k := KnownKind{Fields: []string{"spec.weight", "spec.capability.**", "spec.tasks[].name"}}
	for path, want := range map[string]bool{
		"spec.weight": true, "spec.capability.cpu": true, "spec.capability.a.b": true, "spec.tasks[].name": true,
		"spec.weights": false, "spec": false, "spec.tasks[].nam": false, "spec.tasks[].name.x": false, "": false,
	} {
		if got := k.Knows(path); got != want {
			t.Errorf("%q: %v, want %v", path, got, want)
		}
	}
}

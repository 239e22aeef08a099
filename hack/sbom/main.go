// Command sbom writes what a Go program was built from, as a CycloneDX 1.5 document. All of
// it is in the program itself (debug/buildinfo), so the list is of what was linked, not of
// what go.mod names. The same program gives the same document: no time, no random number.
//
//	go run ./hack/sbom bin/gpu-scheduler >gpu-scheduler.cdx.json
package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: sbom PROGRAM")
		os.Exit(2)
	}
	data, err := os.ReadFile(os.Args[1])
	if err == nil {
		data, err = describe(filepath.Base(os.Args[1]), data)
	}
	if err == nil {
		_, err = os.Stdout.Write(data)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// The parts of a CycloneDX document that are used here.
type (
	document struct {
		Format       string       `json:"bomFormat"`
		SpecVersion  string       `json:"specVersion"`
		Serial       string       `json:"serialNumber"`
		Version      int          `json:"version"`
		Metadata     metadata     `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}
	metadata struct {
		Component component `json:"component"`
	}
	component struct {
		Type       string     `json:"type"`
		Ref        string     `json:"bom-ref"`
		Name       string     `json:"name"`
		Version    string     `json:"version,omitempty"`
		PURL       string     `json:"purl,omitempty"`
		Hashes     []hash     `json:"hashes,omitempty"`
		Properties []property `json:"properties,omitempty"`
	}
	hash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	dependency struct {
		Ref string   `json:"ref"`
		On  []string `json:"dependsOn"`
	}
)

// describe makes the document of a program.
func describe(name string, program []byte) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	sum := sha256.Sum256(program)
	main := component{
		Type: "application", Ref: name, Name: name, Version: versionOf(info), PURL: purl(info.Path, versionOf(info)),
		Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}},
	}
	for _, s := range info.Settings {
		main.Properties = append(main.Properties, property{"go:build:" + s.Key, s.Value})
	}
	doc := document{
		Format: "CycloneDX", SpecVersion: "1.5", Version: 1, Serial: serial(sum), Metadata: metadata{Component: main},
		Components: []component{{
			Type: "library", Ref: "std", Name: "std", Version: strings.TrimPrefix(info.GoVersion, "go"),
			PURL: purl("std", strings.TrimPrefix(info.GoVersion, "go")),
		}},
	}
	for _, m := range info.Deps {
		doc.Components = append(doc.Components, module(m))
	}
	slices.SortFunc(doc.Components, func(a, b component) int { return strings.Compare(a.Ref, b.Ref) })
	all := dependency{Ref: name, On: []string{}}
	for _, c := range doc.Components {
		all.On = append(all.On, c.Ref)
	}
	doc.Dependencies = []dependency{all}
	out, err := json.MarshalIndent(doc, "", "  ")
	return append(out, '\n'), err
}

// module is what was linked: the replacement where go.mod has one.
func module(m *debug.Module) component {
	var from []property
	if m.Replace != nil {
		from = append(from, property{"go:replaces", m.Path + "@" + m.Version})
		m = m.Replace
	}
	c := component{Type: "library", Ref: m.Path + "@" + m.Version, Name: m.Path, Version: m.Version, PURL: purl(m.Path, m.Version), Properties: from}
	if m.Sum != "" { // as in go.sum: a hash of a list of files, not of one
		c.Properties = append(c.Properties, property{"go:sum", m.Sum})
	}
	return c
}

// versionOf is the version that the linker was told, if it was.
func versionOf(info *debug.BuildInfo) string {
	for _, s := range info.Settings {
		if s.Key != "-ldflags" {
			continue
		}
		if _, after, ok := strings.Cut(s.Value, "/internal/version.version="); ok {
			version, _, _ := strings.Cut(strings.TrimRight(after, `"`), " ")
			return version
		}
	}
	return info.Main.Version
}

func purl(path, version string) string {
	return "pkg:golang/" + path + "@" + url.PathEscape(version)
}

// serial is a UUID made from the program's hash.
func serial(sum [sha256.Size]byte) string {
	u := sum[:16]
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80 // version 8: the maker's own
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

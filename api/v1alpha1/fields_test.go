// Package v1alpha1_test follows every field of a GPUNode to all places that know fields by
// name: the CRD, the documentation, the agent, the scheduler. A field that was added to the
// types and forgotten in one of them fails a test that names the field and the place. The back
// ends have tests of their own: internal/agent/nvml (TestInventory), lab/simulated
// (TestEveryFieldIsSimulated).
package v1alpha1_test

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/config"
)

// field says who writes a field of a GPUNode, and who reads it.
type field struct{ writer, reader string }

// Writers and readers that tests look at; others are named for people.
const (
	agent     = "gpu-agent"
	scheduler = "gpu-scheduler"
	people    = "people: kubectl, tangram diagnose"
)

// fields is the table: a row for each field, by its JSON path.
var fields = map[string]field{
	"spec.devices[].index":             {agent, scheduler},
	"spec.devices[].uuid":              {agent, scheduler},
	"spec.devices[].vendor":            {agent, scheduler},
	"spec.devices[].model":             {agent, scheduler},
	"spec.devices[].memoryMiB":         {agent, scheduler},
	"spec.devices[].sms":               {agent, people},
	"spec.devices[].numa":              {agent, scheduler},
	"spec.devices[].pciBusID":          {agent, people},
	"spec.devices[].pcieGeneration":    {agent, people},
	"spec.devices[].pcieLanes":         {agent, people},
	"spec.devices[].nvlinks":           {agent, people},
	"spec.devices[].computeCapability": {agent, people},
	"spec.devices[].fabric":            {agent, people},

	"spec.devices[].mig.enabled":               {agent, scheduler},
	"spec.devices[].mig.profiles[].name":       {agent, scheduler},
	"spec.devices[].mig.profiles[].id":         {agent, scheduler},
	"spec.devices[].mig.profiles[].memoryMiB":  {agent, scheduler},
	"spec.devices[].mig.profiles[].starts[]":   {agent, scheduler},
	"spec.devices[].mig.profiles[].size":       {agent, scheduler},
	"spec.devices[].mig.instances[].profile":   {agent, scheduler},
	"spec.devices[].mig.instances[].profileID": {agent, scheduler},
	"spec.devices[].mig.instances[].start":     {agent, scheduler},
	"spec.devices[].mig.instances[].uuid":      {agent, people},
	"spec.devices[].mig.instances[].owned":     {agent, scheduler},

	"spec.links[].between[]": {agent, scheduler},
	"spec.links[].class":     {agent, scheduler},
	"spec.links[].count":     {agent, scheduler},
	"spec.driver.version":    {agent, people},
	"spec.driver.cuda":       {agent, people},
	"spec.agent.version":     {agent, people},
	"spec.agent.mode":        {agent, scheduler},

	"spec.sharing.strategy":        {agent, scheduler},
	"spec.sharing.replicas":        {agent, scheduler},
	"spec.sharing.renamed":         {agent, scheduler},
	"spec.sharing.onePerContainer": {agent, scheduler},
	"spec.sharing.maxShares":       {agent, scheduler},
	"spec.cordoned[]":              {"operators and gpu-controller", scheduler},

	"status.devices[].index":                 {agent, scheduler},
	"status.devices[].uuid":                  {agent, scheduler},
	"status.devices[].health":                {agent, scheduler},
	"status.devices[].reason":                {agent, scheduler},
	"status.devices[].cause":                 {agent, "gpu-controller, which decides what is done about it"},
	"status.devices[].since":                 {agent, "gpu-controller"},
	"status.devices[].lastXID":               {agent, people},
	"status.devices[].utilizationPercent":    {agent, scheduler},
	"status.devices[].memoryUsedMiB":         {agent, scheduler},
	"status.devices[].temperatureCelsius":    {agent, scheduler},
	"status.devices[].powerWatts":            {agent, scheduler},
	"status.devices[].overMemory[].podUID":   {agent, "gpu-controller"},
	"status.devices[].overMemory[].usedMiB":  {agent, "gpu-controller"},
	"status.devices[].overMemory[].givenMiB": {agent, "gpu-controller"},
	"status.measuredAt":                      {agent, scheduler},
	"status.conditions[]":                    {agent, people},
}

// each visits the fields of a value and of what it contains, by their JSON path, or by their
// Go path where they have no JSON name: the first element of each list, and what a pointer
// points to. With create, empty lists and nil pointers are filled on the way; without, they
// have no fields.
func each(v reflect.Value, path string, create bool, visit func(path string, leaf reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() && create {
			v.Set(reflect.New(v.Type().Elem()))
		}
		if !v.IsNil() {
			each(v.Elem(), path, create, visit)
		}
	case reflect.Slice:
		if v.Len() == 0 && create {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		if v.Len() > 0 {
			each(v.Index(0), path+"[]", create, visit)
		}
	case reflect.Struct:
		switch v.Type() {
		case reflect.TypeFor[time.Time](), reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.Condition]():
			visit(path, v)
			return
		}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				name = f.Name
			}
			each(v.Field(i), strings.TrimPrefix(path+"."+name, "."), create, visit)
		}
	default:
		visit(path, v)
	}
}

// eachField visits the fields of a GPUNode's spec and status.
func eachField(gn *v1alpha1.GPUNode, create bool, visit func(path string, leaf reflect.Value)) {
	each(reflect.ValueOf(&gn.Spec), "spec", create, visit)
	each(reflect.ValueOf(&gn.Status), "status", create, visit)
}

// paths are the paths of all fields.
func paths() (out []string) {
	eachField(&v1alpha1.GPUNode{}, true, func(path string, _ reflect.Value) { out = append(out, path) })
	return out
}

func TestTable(t *testing.T) {
	known := paths()
	for _, path := range known {
		if _, ok := fields[path]; !ok {
			t.Errorf("%s has no row in the table of api/v1alpha1/fields_test.go: who writes it, and who reads it?", path)
		}
	}
	for path := range fields {
		if !slices.Contains(known, path) {
			t.Errorf("%s has a row in the table of api/v1alpha1/fields_test.go, and is no field of a GPUNode", path)
		}
	}
}

// TestCRD: the generated CRD has every field, with a description.
func TestCRD(t *testing.T) {
	type schema struct {
		Description string
		Properties  map[string]*schema
		Items       *schema
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct{ OpenAPIV3Schema *schema }
			}
		}
	}
	for text := range strings.SplitSeq(string(config.CRDs()), "\n---\n") {
		if strings.Contains(text, "kind: GPUNode\n") {
			if err := yaml.Unmarshal([]byte(text), &crd); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(crd.Spec.Versions) == 0 {
		t.Fatal("config/crd has no GPUNode")
	}
	for _, path := range paths() {
		at, described := crd.Spec.Versions[0].Schema.OpenAPIV3Schema, false
		for name := range strings.SplitSeq(path, ".") {
			name, list := strings.CutSuffix(name, "[]")
			if at = at.Properties[name]; at == nil {
				break
			}
			if described = at.Description != ""; list {
				at = at.Items
			}
		}
		switch {
		case at == nil:
			t.Errorf("%s is not in config/crd/tangram.dev_gpunodes.yaml: make generate", path)
		case !described:
			t.Errorf("%s has no comment in api/v1alpha1/gpunode.go", path)
		}
	}
}

// TestPage: docs/formats/gpunode.md names every field in the section of spec or of status.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/formats/gpunode.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n## spec")
	spec, status, found := strings.Cut(rest, "\n## status")
	if !found {
		t.Fatal("docs/formats/gpunode.md has no sections spec and status")
	}
	for _, path := range paths() {
		page := spec
		if strings.HasPrefix(path, "status.") {
			page = status
		}
		name := strings.TrimSuffix(path[strings.LastIndex(path, ".")+1:], "[]")
		if !regexp.MustCompile("`([^`]*[.\\]…])?" + name + "(\\[\\])?`").MatchString(page) {
			t.Errorf("%s is not in docs/formats/gpunode.md", path)
		}
	}
}

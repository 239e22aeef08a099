package operators

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// definitions are an operator's manifests with its webhooks pointing to a port of this
// machine, and the paths of those that admit objects: some CRDs name a webhook for
// conversions that their operator does not serve, having one version only. authority is PEM.
func definitions(docs []byte, webhooks reach, port int, authority []byte) (manifests []byte, paths []string, err error) {
	var out bytes.Buffer
	services := map[[2]string]bool{} // namespace and name
	write := func(o object) error {
		data, err := yaml.Marshal(o)
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "---\n%s", data)
		return nil
	}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(docs)))
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		o := object{}
		if err := yaml.Unmarshal(doc, &o); err != nil {
			return nil, nil, err
		}
		if len(o) == 0 {
			continue
		}
		for _, config := range clientConfigs(o) {
			if webhooks == none {
				return nil, nil, fmt.Errorf("%s has webhooks, which the table says it has not", name(o))
			}
			service, path, err := pointTo(config, webhooks, port, authority)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", name(o), err)
			}
			services[service] = true
			if o["kind"] != "CustomResourceDefinition" { // one of a single version may name a conversion that its operator does not serve
				paths = append(paths, path)
			}
		}
		if err := write(o); err != nil {
			return nil, nil, err
		}
	}
	if webhooks != byService {
		return out.Bytes(), paths, nil
	}
	for _, service := range slices.SortedFunc(maps.Keys(services), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		if err := write(object{
			"apiVersion": "v1", "kind": "Service", "metadata": object{"namespace": service[0], "name": service[1]},
			"spec": object{"type": "ExternalName", "externalName": "localhost"},
		}); err != nil {
			return nil, nil, err
		}
	}
	return out.Bytes(), paths, nil
}

// clientConfigs are the places of an object that say where a webhook is.
func clientConfigs(o object) (out []object) {
	webhooks, _, _ := unstructured.NestedFieldNoCopy(o, "webhooks")
	list, _ := webhooks.([]any)
	for _, w := range list {
		if webhook, ok := w.(object); ok {
			if config, ok := webhook["clientConfig"].(object); ok {
				out = append(out, config)
			}
		}
	}
	conversion, _, _ := unstructured.NestedFieldNoCopy(o, "spec", "conversion", "webhook", "clientConfig")
	if config, ok := conversion.(object); ok {
		out = append(out, config)
	}
	return out
}

// pointTo makes a webhook's client configuration lead to a port of this machine, and
// returns namespace and name of the Service that it named, and the webhook's path.
func pointTo(config object, webhooks reach, port int, authority []byte) (service [2]string, path string, err error) {
	to, ok := config["service"].(object)
	if !ok {
		return service, "", errors.New("clientConfig.service: missing")
	}
	service[0], _ = to["namespace"].(string)
	service[1], _ = to["name"].(string)
	path, _ = to["path"].(string)
	if webhooks == byService {
		to["port"] = port
		return service, path, nil
	}
	delete(config, "service")
	config["url"] = "https://" + at(port) + path
	config["caBundle"] = base64.StdEncoding.EncodeToString(authority)
	return service, path, nil
}

func name(o object) string {
	u := unstructured.Unstructured{Object: o}
	return u.GetKind() + " " + u.GetName()
}

package controller

import (
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tangram-dev/tangram/api/names"
)

// annotationUnreadable marks, in memory only, objects whose spec could not be decoded.
// Its value is the error.
const annotationUnreadable = names.Group + "/unreadable"

// salvaging decodes lists in which an object cannot be decoded. A CRD's patterns accept
// values that the Go types reject, such as the quantity 1e1.5; one such object would
// otherwise stop the watch for all jobs.
type salvaging struct{ runtime.NegotiatedSerializer }

func (s salvaging) DecoderToVersion(d runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	return salvager{s.NegotiatedSerializer.DecoderToVersion(d, gv)}
}

type salvager struct{ runtime.Decoder }

func (s salvager) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	out, kind, err := s.Decoder.Decode(data, defaults, into)
	if err == nil {
		return out, kind, nil
	}
	rest, ok := s.salvage(data, err)
	if !ok {
		return out, kind, err
	}
	if v := reflect.ValueOf(into); v.Kind() == reflect.Pointer && !v.IsNil() {
		v.Elem().SetZero() // half of it was read
	}
	return s.Decoder.Decode(rest, defaults, into)
}

// salvage drops the spec of an object that cannot be decoded, or the specs of such
// objects in a list.
func (s salvager) salvage(data []byte, cause error) ([]byte, bool) {
	var object map[string]json.RawMessage
	if json.Unmarshal(data, &object) != nil {
		return nil, false
	}
	var items []json.RawMessage
	if json.Unmarshal(object["items"], &items) == nil {
		for i, item := range items {
			// Items of a list of custom objects name their kind.
			if _, _, err := s.Decoder.Decode(item, nil, nil); err != nil {
				if rest, ok := s.salvage(item, err); ok {
					items[i] = rest
				}
			}
		}
		object["items"], _ = json.Marshal(items) // what was read can be written
		out, err := json.Marshal(object)
		return out, err == nil
	}
	var meta map[string]any
	if object["spec"] == nil || json.Unmarshal(object["metadata"], &meta) != nil {
		return nil, false
	}
	annotations, _ := meta["annotations"].(map[string]any)
	if annotations == nil {
		annotations = map[string]any{}
	}
	annotations[annotationUnreadable] = fmt.Sprintf("spec: %v", cause)
	meta["annotations"] = annotations
	delete(object, "spec")
	object["metadata"], _ = json.Marshal(meta)
	out, err := json.Marshal(object)
	return out, err == nil
}

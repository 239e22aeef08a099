package controller

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
)

// TestSalvage: one object that cannot be decoded does not hide the others, alone or in
// a list.
func TestSalvage(t *testing.T) {
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	codecs := salvaging{serializer.NewCodecFactory(scheme).WithoutConversion()}
	info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	decoder := codecs.DecoderToVersion(info.Serializer, batch.SchemeGroupVersion)
	item := func(name, spec string) string {
		return `{"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","metadata":{"name":"` + name + `","annotations":{"a":"b"}},"spec":` + spec + `,"status":{"version":3}}`
	}
	bad := item("bad", `{"queue":"q","runningEstimate":"soon"}`)
	good := item("good", `{"queue":"q"}`)

	check := func(j *batch.Job) {
		t.Helper()
		why := j.Annotations[annotationUnreadable]
		if j.Name == "good" && (why != "" || j.Spec.Queue != "q") || j.Name == "bad" && (!strings.Contains(why, `"soon"`) || j.Spec.Queue != "") {
			t.Errorf("%s: %q, spec %+v", j.Name, why, j.Spec)
		}
		if j.Annotations["a"] != "b" || j.Status.Version != 3 {
			t.Errorf("%s lost its rest: %+v", j.Name, j)
		}
	}
	for _, text := range []string{good, bad} {
		into := &batch.Job{}
		if _, _, err := decoder.Decode([]byte(text), nil, into); err != nil {
			t.Fatal(err)
		}
		check(into)
	}
	list := &batch.JobList{}
	text := `{"apiVersion":"batch.volcano.sh/v1alpha1","kind":"JobList","metadata":{"resourceVersion":"7"},"items":[` + good + "," + bad + "]}"
	if _, _, err := decoder.Decode([]byte(text), nil, list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 2 || list.ResourceVersion != "7" {
		t.Fatalf("%d items, %+v", len(list.Items), list.ListMeta)
	}
	for i := range list.Items {
		check(&list.Items[i])
	}
	for _, text := range []string{"", "{", `{"kind":"Job","apiVersion":"batch.volcano.sh/v1alpha1","metadata":7}`} {
		if _, _, err := decoder.Decode([]byte(text), nil, &batch.Job{}); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

package kubeapi

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// TestPaths: requests go where the API server has the kinds, with and without a namespace.
func TestPaths(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.URL.RequestURI())
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{}")
	}))
	defer server.Close()
	c, err := New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	ctx, slice := t.Context(), &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	event := &v1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "ns"}}
	for _, call := range []func() error{
		func() error { _, err := c.Pods("").List(ctx, metav1.ListOptions{FieldSelector: "a=b"}); return err },
		func() error {
			_, err := c.Pods("ns").Patch(ctx, "p", types.MergePatchType, nil, metav1.PatchOptions{FieldManager: "m"}, "status")
			return err
		},
		func() error {
			_, err := c.Nodes().Get(ctx, "n", metav1.GetOptions{ResourceVersion: "0"})
			return err
		},
		func() error { _, err := c.Claim(ctx, "ns", "c"); return err },
		func() error { _, err := c.Slices().Create(ctx, slice); return err },
		func() error { _, err := c.Slices().Update(ctx, slice); return err },
		func() error { return c.Slices().Delete(ctx, "s") },
		func() error { _, err := events{c.core}.Create(event); return err },
		func() error { _, err := events{c.core}.Patch(event, nil); return err },
	} {
		if err := call(); err != nil {
			t.Error(err)
		}
	}
	want := []string{
		"GET /api/v1/pods?fieldSelector=a%3Db",
		"PATCH /api/v1/namespaces/ns/pods/p/status?fieldManager=m",
		"GET /api/v1/nodes/n?resourceVersion=0",
		"GET /apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c",
		"POST /apis/resource.k8s.io/v1/resourceslices",
		"PUT /apis/resource.k8s.io/v1/resourceslices/s",
		"DELETE /apis/resource.k8s.io/v1/resourceslices/s",
		"POST /api/v1/namespaces/ns/events",
		"PATCH /api/v1/namespaces/ns/events/e",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

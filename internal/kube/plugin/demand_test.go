package plugin

import (
	"context"
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/tangram-dev/tangram/api/demand"
	"github.com/tangram-dev/tangram/api/names"
)

// demanded is the document as the API has it; nil when it has none.
func demanded(t *testing.T, client kubernetes.Interface) *demand.Document {
	t.Helper()
	object, err := client.CoreV1().ConfigMaps(names.DemandNamespace).Get(t.Context(), names.DemandName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if object.Data[demand.Key] == "" {
		return nil
	}
	doc, err := demand.Decode([]byte(object.Data[demand.Key]))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func demandObject(text string) *v1.ConfigMap {
	return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: names.DemandNamespace, Name: names.DemandName}, Data: map[string]string{demand.Key: text}}
}

// TestDemander: the latest document is written; by a leader only; not where there is no
// object for it.
func TestDemander(t *testing.T) {
	client := fake.NewClientset(demandObject(""))
	lost := errors.New("lost the lease")
	var fenced error
	d := newDemander(client, func() error { return fenced })
	d.tell(&demand.Document{Kept: []string{"a"}})
	d.tell(&demand.Document{Kept: []string{"b"}})
	d.tell(nil)
	if err := d.write(t.Context()); err != nil {
		t.Fatal(err)
	}
	if doc := demanded(t, client); doc.Kept[0] != "b" || time.Since(doc.At) > time.Minute {
		t.Errorf("written: %+v", doc)
	}
	d.tell(&demand.Document{})
	if fenced = lost; !errors.Is(d.write(t.Context()), lost) || len(demanded(t, client).Kept) != 1 {
		t.Error("written without the lease")
	}
	fenced = nil
	if err := d.write(t.Context()); err != nil || len(demanded(t, client).Kept) != 0 {
		t.Errorf("not taken back: %v", err)
	}
	if err := newDemander(fake.NewClientset(), func() error { return nil }).write(t.Context()); err == nil {
		t.Error("no error without an object")
	}
	var none *demander
	none.tell(&demand.Document{}) // nobody is told
}

// TestDemandAfterLeader: what a former leader has asked for a moment ago is not taken back
// before this one has found out what is missing.
func TestDemandAfterLeader(t *testing.T) {
	for name, tt := range map[string]struct {
		age   time.Duration
		kept  []string
		waits bool
	}{"fresh": {time.Second, []string{"a"}, true}, "old": {time.Hour, []string{"a"}, false}, "empty": {time.Second, nil, false}} {
		doc := demand.Document{At: time.Now().Add(-tt.age), Kept: tt.kept}
		text, err := doc.Encode()
		if err != nil {
			t.Fatal(err)
		}
		d := newDemander(fake.NewClientset(demandObject(string(text))), func() error { return nil })
		if got := d.asked(context.Background()); got != tt.waits {
			t.Errorf("%s: waits %v, want %v", name, got, tt.waits)
		}
	}
}

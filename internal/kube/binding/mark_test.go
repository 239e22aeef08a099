package binding

import (
	"maps"
	"math"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
)

// TestMark: members of gangs are not to be moved, of others the cost is what they hold, and
// what the pod says itself stays.
func TestMark(t *testing.T) {
	for name, tt := range map[string]struct {
		has   map[string]string
		gang  bool
		milli int64
		want  map[string]string
	}{
		"gang":         {nil, true, 8000, map[string]string{names.AnnotationDoNotDisrupt: "true", names.AnnotationSafeToEvict: "false"}},
		"says so":      {map[string]string{names.AnnotationDoNotDisrupt: "false"}, true, 8000, map[string]string{names.AnnotationSafeToEvict: "false"}},
		"one device":   {nil, false, 1000, map[string]string{v1.PodDeletionCost: "0"}},
		"four":         {nil, false, 4000, map[string]string{v1.PodDeletionCost: "402653184"}},
		"a quarter":    {nil, false, 250, map[string]string{v1.PodDeletionCost: "-100663296"}},
		"none":         {nil, false, 0, map[string]string{}},
		"its own cost": {map[string]string{v1.PodDeletionCost: "7"}, false, 4000, map[string]string{}},
	} {
		got := map[string]string{}
		Mark(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: tt.has}}, got, tt.gang, tt.milli)
		if !maps.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}

// TestDeletionCost: it grows with the devices and is a number of 32 bits, as Kubernetes
// demands; Karpenter's cost, as it computes it, is the number of devices.
func TestDeletionCost(t *testing.T) {
	last := int64(math.MinInt64)
	for milli := int64(1); milli < 100_000; milli += 37 {
		cost := deletionCost(milli)
		if cost < last || cost > math.MaxInt32 || cost < math.MinInt32 {
			t.Fatalf("%d: %d after %d", milli, cost, last)
		}
		if _, err := strconv.ParseInt(strconv.FormatInt(cost, 10), 10, 32); err != nil {
			t.Fatal(err)
		}
		if karpenter := 1 + float64(cost)/math.Pow(2, 27); milli <= 16_000 && math.Abs(karpenter-float64(milli)/1000) > 1e-6 {
			t.Fatalf("%d: Karpenter counts %f", milli, karpenter)
		}
		last = cost
	}
}

package workload

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/internal/dialect"
)

// TestLeast: how many members a gang needs, by what exists and has a place.
func TestLeast(t *testing.T) {
	member := func(leader, bound bool, n dialect.Needs) *Member {
		m := &Member{Pod: &v1.Pod{}, Membership: dialect.Membership{Leader: leader}, needs: n}
		if bound {
			m.Pod.Spec.NodeName = "n"
		}
		return m
	}
	sts := func(name string, later int) *Member {
		m := member(false, false, dialect.Needs{Whole: 8, Later: later})
		m.Also = dialect.Object{Resource: dialect.StatefulSets, Key: "default/" + name}
		return m
	}
	ray, lws := dialect.Needs{Whole: 13, Running: 3}, dialect.Needs{First: 1, Whole: 4}
	for name, tt := range map[string]struct {
		pods []*Member
		want int
	}{
		"nobody says":                              {[]*Member{member(false, false, dialect.Needs{})}, 0},
		"a number":                                 {[]*Member{member(false, false, dialect.Needs{Whole: 4})}, 4},
		"a leader alone":                           {[]*Member{member(true, false, lws)}, 1},
		"a leader that runs, alone":                {[]*Member{member(true, true, lws)}, 1},
		"its workers come":                         {[]*Member{member(true, true, lws), member(false, false, lws)}, 4},
		"a cluster that has been whole":            {[]*Member{member(false, true, ray), member(false, false, ray)}, 3},
		"evicted whole":                            {[]*Member{member(false, false, ray), member(false, false, ray)}, 13},
		"beside a pod that says nothing":           {[]*Member{member(false, false, dialect.Needs{}), member(false, false, ray)}, 13},
		"one after the other":                      {[]*Member{sts("a", 3)}, 5},
		"one after the other, twice the same":      {[]*Member{sts("a", 3), sts("a", 3)}, 5},
		"one after the other, two StatefulSets":    {[]*Member{sts("a", 3), sts("b", 2)}, 3},
		"more to come than the gang has members":   {[]*Member{sts("a", 100)}, 1},
		"a StatefulSet and pods of something else": {[]*Member{sts("a", 3), member(false, false, dialect.Needs{Whole: 8})}, 5},
	} {
		if got := least(tt.pods); got != tt.want {
			t.Errorf("%s: got %d, want %d", name, got, tt.want)
		}
	}
}

package report

import (
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestComplaints: a problem is reported once, until it changes or goes.
func TestComplaints(t *testing.T) {
	var c Complaints
	one, two := errors.New("one"), errors.New("two")
	for i, tt := range []struct {
		problem error
		want    int
	}{{one, 1}, {one, 0}, {two, 1}, {nil, 0}, {two, 1}} {
		c.Set("x", &v1.ObjectReference{Name: "x"}, tt.problem, "Invalid")
		got := c.Take()
		if len(got) != tt.want || tt.want > 0 && (got[0].Message != tt.problem.Error() || got[0].About.Name != "x" || got[0].Reason != "Invalid") {
			t.Errorf("%d: reported %+v", i, got)
		}
	}
	if c.Clear("x"); len(c.last) > 0 {
		t.Error("what was taken back is kept")
	}
	c.Add(Complaint{Message: "always"}, Complaint{Message: "always"})
	if got := c.Take(); len(got) != 2 {
		t.Errorf("reported %+v", got)
	}
}

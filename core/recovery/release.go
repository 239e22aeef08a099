package recovery

import (
	"fmt"
	"time"

	"github.com/tangram-dev/tangram/core/health"
)

// recoverNodes puts nodes back into service that have been well for long enough, and
// leaves those alone that an operator put back himself.
func (s *step) recoverNodes() {
	for i := range s.fleet.Nodes {
		n := &s.fleet.Nodes[i]
		t := s.node(n)
		s.released(t, n.Mark, "node")
		if n.Mark == nil {
			t.well, t.uncordoned = time.Time{}, false
			s.settle(Action{Do: ReleaseNode, Node: n.Name})
			s.settle(Action{Do: MarkNode, Node: n.Name})
			continue
		}
		s.settle(Action{Do: IsolateNode, Node: n.Name})
		cause, _, _ := s.fault(n)
		switch {
		case n.Mark.Lifted:
			t.well, t.uncordoned = time.Time{}, false
			if cause == NoCause && !n.Maintenance.inEffect(s.now) {
				t.suspicion = suspicion{}
				s.do(Action{Do: ReleaseNode, Node: n.Name, Cause: n.Mark.Cause, Why: "the fault is over; an operator had put the node back into service before", Mark: n.Mark})
			}
		case t.uncordoned, !n.Tainted, n.Mark.Cordoned && !n.Unschedulable:
			t.uncordoned = t.uncordoned || n.Mark.Cordoned && !n.Unschedulable
			mark := *n.Mark
			mark.Lifted, mark.Cordoned = true, mark.Cordoned && !t.uncordoned
			s.do(Action{Do: MarkNode, Node: n.Name, Cause: mark.Cause, Why: "an operator put the node back into service; nothing more is done about this fault", Mark: &mark})
		case cause != NoCause || n.Maintenance.inEffect(s.now):
			t.well = time.Time{}
		default:
			if t.well.IsZero() {
				t.well = s.now
			}
			if n.Mark.Cause == UnderRepair || s.now.Sub(t.well) >= s.c.RecoverAfter {
				if s.do(Action{Do: ReleaseNode, Node: n.Name, Cause: n.Mark.Cause, Why: fmt.Sprintf("%s is over", n.Mark.Cause), Mark: n.Mark}) {
					t.releasing = n.Mark
				}
			}
		}
	}
}

// released measures what was asked to be put back and now is.
func (s *step) released(t *target, mark *Mark, of string) {
	if t.releasing == nil || mark != nil {
		return
	}
	if t.releasing.Cause != UnderRepair {
		s.plan.Recovered = append(s.plan.Recovered, Recovery{Of: of, Took: s.now.Sub(t.releasing.Detected)})
	}
	t.releasing, t.well, t.moved, t.gone = nil, time.Time{}, false, false
}

// recoverDevices does the same for devices, each verified by a test pod where that is
// wanted.
func (s *step) recoverDevices() {
	for i := range s.fleet.Nodes {
		n := &s.fleet.Nodes[i]
		for j := range n.Devices {
			s.recoverDevice(n, &n.Devices[j])
		}
		for _, id := range n.Replaced {
			s.do(Action{Do: ReleaseDevice, Node: n.Name, Device: id, Why: fmt.Sprintf("GPU %s is no longer in the node", id), Mark: &Mark{}})
		}
	}
}

func (s *step) recoverDevice(n *Node, d *Device) {
	t := s.device(n, d)
	mark := d.Mark
	if d.Isolated && mark == nil { // its mark was lost; ours it is all the same
		mark = &Mark{Cause: DeviceDegraded, Why: "isolated earlier", Began: s.now, Detected: s.now}
	}
	s.released(t, mark, "device")
	base := Action{Node: n.Name, Device: d.ID, Mark: mark}
	if d.Test == nil {
		s.settle(Action{Do: EndTest, Node: n.Name, Device: d.ID})
	}
	if mark == nil {
		t.well, t.restarts = time.Time{}, 0
		for _, do := range []Do{ReleaseDevice, MarkDevice, StartTest} {
			s.settle(Action{Do: do, Node: n.Name, Device: d.ID})
		}
		if d.Test != nil {
			base.Do = EndTest
			s.do(base)
		}
		return
	}
	base.Cause = mark.Cause
	s.settle(Action{Do: IsolateDevice, Node: n.Name, Device: d.ID})
	cause, _, _ := s.faultOf(n, d)
	readable := s.readable(n) // else its state is old
	switch {
	case mark.Lifted:
		if cause == NoCause && readable {
			t.suspicion = suspicion{}
			base.Do, base.Why = ReleaseDevice, "the fault is over; an operator had put the GPU back into service before"
			s.do(base)
		}
		return
	case !d.Isolated:
		lifted := *mark
		lifted.Lifted = true
		base.Do, base.Mark, base.Why = MarkDevice, &lifted, "an operator put GPU "+d.ID+" back into service; nothing more is done about this fault"
		s.do(base)
		return
	case cause != NoCause || !readable || d.State == health.Suspect:
		t.well = time.Time{}
		if d.Test != nil {
			base.Do = EndTest
			s.do(base)
		}
		return
	case t.well.IsZero():
		t.well = s.now
	}
	if s.now.Sub(t.well) < s.c.RecoverAfter {
		return
	}
	base.Do, base.Why = ReleaseDevice, fmt.Sprintf("GPU %s is healthy again", d.ID)
	if s.c.Verify && !s.tested(n, d, t, base) {
		return
	}
	if s.do(base) {
		t.releasing = mark
	}
}

// tested says whether a test pod has run on the device, and starts or removes it.
func (s *step) tested(n *Node, d *Device, t *target, base Action) bool {
	base.Why = ""
	switch {
	case d.Test == nil:
		base.Do = StartTest
		s.do(base)
	case d.Test.Outcome == TestPassed:
		return true
	case d.Test.Outcome == TestFailed, s.now.Sub(d.Test.Started) > s.c.VerifyTimeout:
		base.Do, base.Why = EndTest, "the test pod did not end within "+s.c.VerifyTimeout.String()
		if d.Test.Outcome == TestFailed {
			base.Why = "the test pod failed: " + d.Test.Why
		}
		if s.do(base) {
			s.plan.Notices = append(s.plan.Notices, Notice{Node: n.Name, Reason: "VerificationFailed", Text: fmt.Sprintf("GPU %s stays isolated: %s", d.ID, base.Why)})
			t.well = s.now // well for long enough again, before the next
		}
	}
	return false
}

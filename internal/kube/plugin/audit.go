package plugin

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/audit"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
)

// auditor is the audit log of a scheduler, where there is one. Plugins are built before
// the log is opened, in any order, so they share this.
type auditor struct{ log *audit.Log }

// on says whether entries are wanted.
func (a *auditor) on() bool { return a != nil && a.log.On() }

// open opens the log that the arguments name, once.
func (a *auditor) open(args *AuditArgs, t *tuning) error {
	if args.Path == "" || a.log != nil {
		return nil
	}
	out, err := audit.Open(args.Path, int64(t.audit.megabytes)<<20, t.audit.files)
	if err != nil {
		return err
	}
	audit.RegisterMetrics()
	a.log = audit.New(out, t.audit.buffer)
	return nil
}

// started says that a pod was bound; the cycle is nil for pods that the engine does not
// place.
func (a *auditor) started(pod *v1.Pod, node string, c *cycle) {
	if !a.on() {
		return
	}
	e := audit.Of(audit.Start, pod, time.Now())
	e.Node = node
	if c.released() {
		e.Queue, e.Gang = c.Queue, c.Name
		if c.Request.Vendor != "" {
			e.Devices = audit.DevicesOf(dialect.Record(c.Request, c.Cycle.Node, c.Grant))
		}
	}
	a.log.Add(e)
}

// evicted says that a pod was told to leave.
func (a *auditor) evicted(v kubeengine.Victim, reason string) {
	if !a.on() {
		return
	}
	e := audit.Of(audit.Evict, v.Pod, time.Now())
	e.Reason, e.Message, e.For, e.Queue, e.Gang = reason, v.Why, v.For, v.Queue, v.Gang
	if r, err := record.Decode(v.Pod.Annotations[names.AnnotationDevices]); err == nil {
		e.Devices = audit.DevicesOf(r)
	}
	a.log.Add(e)
}

// refused says that gangs do not start.
func (a *auditor) refused(refusals []kubeengine.Refusal) {
	if !a.on() {
		return
	}
	for _, r := range refusals {
		e := audit.Of(audit.Refuse, r.Pod, time.Now())
		e.Gang, e.Queue, e.Members = r.Gang, r.Queue, r.Members
		e.Because(&r.Reason)
		a.log.Add(e)
	}
}

package plugin

import (
	"fmt"
	"strconv"
	"time"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/state"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
)

// tuning is what the plugins' arguments say about times, counts and files.
type tuning struct {
	batch  time.Duration
	core   engine.Timing
	engine kubeengine.Timing
	check  struct {
		every, again time.Duration
		nodes        int
	}
	permit time.Duration
	bind   struct{ every, most time.Duration }
	claims struct{ filter, bind time.Duration }
	state  struct{ every time.Duration }
	audit  struct{ megabytes, files, buffer int }
	demand struct{ patience time.Duration }
}

// setting is an argument that is a duration or a count: its default, its bounds and what it
// is for. The table in docs/reference/configuration.md is made from these.
type setting[A any] struct {
	field       string
	def         int64 // nanoseconds of a duration
	least, most int64
	meaning     string
	duration    func(*A) *string // or
	count       func(*A) **int
	setDuration func(*tuning, time.Duration)
	setCount    func(*tuning, int)
}

// of is a duration.
func of[A any](field string, def, least, most time.Duration, at func(*A) *string, set func(*tuning, time.Duration), meaning string) setting[A] {
	return setting[A]{field: field, def: int64(def), least: int64(least), most: int64(most), duration: at, setDuration: set, meaning: meaning}
}

// count is a number.
func count[A any](field string, def, least, most int, at func(*A) **int, set func(*tuning, int), meaning string) setting[A] {
	return setting[A]{field: field, def: int64(def), least: int64(least), most: int64(most), count: at, setCount: set, meaning: meaning}
}

// read checks an argument and sets it, or its default. An error names the field.
func (s *setting[A]) read(args *A, into *tuning) error {
	if s.count != nil {
		n := s.def
		if given := *s.count(args); given != nil {
			if n = int64(*given); n < s.least || n > s.most {
				return fmt.Errorf("%s: %d, must be %d to %d", s.field, n, s.least, s.most)
			}
		}
		s.setCount(into, int(n))
		return nil
	}
	d := time.Duration(s.def)
	if text := *s.duration(args); text != "" {
		var err error
		if d, err = time.ParseDuration(text); err != nil {
			return fmt.Errorf("%s: %q is not a duration like %s", s.field, text, short(time.Duration(s.def)))
		}
		if int64(d) < s.least || int64(d) > s.most {
			return fmt.Errorf("%s: %s, must be %s to %s", s.field, text, short(time.Duration(s.least)), short(time.Duration(s.most)))
		}
	}
	s.setDuration(into, d)
	return nil
}

// readAll reads all arguments of a table.
func readAll[A any](table []setting[A], args *A, into *tuning) error {
	for i := range table {
		if err := table[i].read(args, into); err != nil {
			return err
		}
	}
	return nil
}

// short is a duration without zero parts: 1m, not 1m0s.
func short(d time.Duration) string {
	switch {
	case d >= time.Hour && d%time.Hour == 0:
		return strconv.FormatInt(int64(d/time.Hour), 10) + "h"
	case d >= time.Minute && d%time.Minute == 0:
		return strconv.FormatInt(int64(d/time.Minute), 10) + "m"
	}
	return d.String()
}

// queueSettings are GPUQueue's.
func queueSettings() []setting[QueueArgs] {
	type a = QueueArgs
	type t = tuning
	type d = time.Duration
	core, local := engine.DefaultTiming(), kubeengine.DefaultTiming()
	const ms, s, m, h = time.Millisecond, time.Second, time.Minute, time.Hour
	return []setting[a]{
		of("timeouts.batch", kubeengine.BatchTimeout, s, h, func(x *a) *string { return &x.Timeouts.Batch }, func(t *t, v d) { t.batch = v },
			"how long members of a gang that start together may take until the last of them is at Permit; then all are taken back"),
		of("timeouts.nudge", core.NudgeAfter, 100*ms, 10*m, func(x *a) *string { return &x.Timeouts.Nudge }, func(t *t, v d) { t.core.NudgeAfter = v },
			"how long a released pod may take to come to its scheduling cycle before it is activated again"),
		of("timeouts.victims", core.Hold, s, 24*h, func(x *a) *string { return &x.Timeouts.Victims }, func(t *t, v d) { t.core.Hold = v },
			"how long nodes are kept for a gang while its victims leave: longer than their grace periods"),
		of("timeouts.afterVictims", core.LastWait, s, h, func(x *a) *string { return &x.Timeouts.AfterVictims }, func(t *t, v d) { t.core.LastWait = v },
			"how long they are still kept once the last victim is gone"),
		of("timeouts.reclaim", core.ReclaimAfter, 0, h, func(x *a) *string { return &x.Timeouts.Reclaim }, func(t *t, v d) { t.core.ReclaimAfter = v },
			"how long a queue has to be short of a gang before pods of other queues are evicted for it"),
		of("timeouts.terminating", local.Terminating, s, 24*h, func(x *a) *string { return &x.Timeouts.Terminating }, func(t *t, v d) { t.engine.Terminating = v },
			"how long after its grace period a terminating pod is still expected to go"),
		of("timeouts.contest", local.Contest, 0, h, func(x *a) *string { return &x.Timeouts.Contest }, func(t *t, v d) { t.engine.Contest = v },
			"how long two records may name one device on a node with an agent, which corrects records, before the younger pod has to go"),
		of("timeouts.invalidQueue", local.InvalidQueue, 0, h, func(x *a) *string { return &x.Timeouts.InvalidQueue }, func(t *t, v d) { t.engine.InvalidQueue = v },
			"how long a Queue may be invalid before an event says so: its parent may come after it"),
		of("timeouts.owner", local.Owner, 0, h, func(x *a) *string { return &x.Timeouts.Owner }, func(t *t, v d) { t.engine.Owner = v },
			"how long after a pod's creation its owner or PodGroup may be unknown before the pod is treated as one without"),
		of("timeouts.nextRun", local.NextRun, 0, h, func(x *a) *string { return &x.Timeouts.NextRun }, func(t *t, v d) { t.engine.NextRun = v },
			"how long the first members of a gang's next run wait for the others before they are taken for repairs of the run before"),
		of("stepEvery", local.Step, 100*ms, 10*m, func(x *a) *string { return &x.StepEvery }, func(t *t, v d) { t.engine.Step = v },
			"how often the engine decides though nothing happens"),
		of("shortestRun", local.ShortestRun, 0, 24*h, func(x *a) *string { return &x.ShortestRun }, func(t *t, v d) { t.engine.ShortestRun = v },
			"runs that end sooner teach nothing about runtimes: they failed to start"),
		count("retries.nudges", core.Nudges, 0, 100, func(x *a) **int { return &x.Retries.Nudges }, func(t *t, v int) { t.core.Nudges = v },
			"after how many activations without effect a released pod is queued anew"),
		count("retries.bindings", core.BindTries, 0, 1000, func(x *a) **int { return &x.Retries.Bindings }, func(t *t, v int) { t.core.BindTries = v },
			"how often a member of a gang may fail to be bound before it loses its place"),
		of("backoff.start.initial", core.Start.First, ms, h, func(x *a) *string { return &x.Backoff.Start.Initial }, func(t *t, v d) { t.core.Start.First = v },
			"pause of a gang whose start failed for a cause that planning anew does not cure; doubled each time"),
		of("backoff.start.max", core.Start.Most, ms, 24*h, func(x *a) *string { return &x.Backoff.Start.Max }, func(t *t, v d) { t.core.Start.Most = v },
			"the longest such pause"),
		of("backoff.veto.initial", core.Veto.First, ms, h, func(x *a) *string { return &x.Backoff.Veto.Initial }, func(t *t, v d) { t.core.Veto.First = v },
			"how long a node that kube-scheduler's filters refused is not planned again for pods alike; doubled each time"),
		of("backoff.veto.max", core.Veto.Most, ms, h, func(x *a) *string { return &x.Backoff.Veto.Max }, func(t *t, v d) { t.core.Veto.Most = v },
			"the longest such pause"),
		of("backoff.vetoEverywhere", core.VetoEverywhere, ms, h, func(x *a) *string { return &x.Backoff.VetoEverywhere }, func(t *t, v d) { t.core.VetoEverywhere = v },
			"the first pause of pods that are refused on every node; doubled up to backoff.veto.max"),
		of("backoff.outage.initial", core.Suspend.First, ms, h, func(x *a) *string { return &x.Backoff.Outage.Initial }, func(t *t, v d) { t.core.Suspend.First = v },
			"how long nothing is started when the API server cannot be written to; doubled each time"),
		of("backoff.outage.max", core.Suspend.Most, ms, h, func(x *a) *string { return &x.Backoff.Outage.Max }, func(t *t, v d) { t.core.Suspend.Most = v },
			"the longest such pause"),
		of("backoff.refusedEviction", core.Spared, 0, h, func(x *a) *string { return &x.Backoff.RefusedEviction }, func(t *t, v d) { t.core.Spared = v },
			"how long a pod is left alone whose eviction the API server refused"),
		of("backoff.futileEviction", core.FutilePause, 0, 24*h, func(x *a) *string { return &x.Backoff.FutileEviction }, func(t *t, v d) { t.core.FutilePause = v },
			"how long no pod is evicted for a gang whose start failed after pods had been; doubled each time, ten times at most"),
		of("selfCheck.every", m, s, 24*h, func(x *a) *string { return &x.SelfCheck.Every }, func(t *t, v d) { t.check.every = v },
			"how often the ledger is compared with the API"),
		of("selfCheck.again", 3*s, 0, m, func(x *a) *string { return &x.SelfCheck.Again }, func(t *t, v d) { t.check.again = v },
			"how long a difference must last to be reported"),
		count("selfCheck.nodes", 256, 1, 100_000, func(x *a) **int { return &x.SelfCheck.Nodes }, func(t *t, v int) { t.check.nodes = v },
			"how many nodes each comparison looks at"),
		of("state.every", m, s, 24*h, func(x *a) *string { return &x.State.Every }, func(t *t, v d) { t.state.every = v },
			fmt.Sprintf("how often what was learned is written, at most: one object of up to %d KiB, only if something has changed", state.MaxBytes>>10)),
		count("audit.maxSizeMiB", 100, 1, 100_000, func(x *a) **int { return &x.Audit.MaxSizeMiB }, func(t *t, v int) { t.audit.megabytes = v },
			"size at which the audit log is rotated"),
		count("audit.maxFiles", 5, 1, 1000, func(x *a) **int { return &x.Audit.MaxFiles }, func(t *t, v int) { t.audit.files = v },
			"how many files of it there are at most, the one that is written included"),
		count("audit.buffer", 4096, 1, 1_000_000, func(x *a) **int { return &x.Audit.Buffer }, func(t *t, v int) { t.audit.buffer = v },
			"how many entries may wait to be written; more are dropped and counted"),
		of("autoscaling.patience", 3*m, s, 24*h, func(x *a) *string { return &x.Autoscaling.Patience }, func(t *t, v d) { t.demand.patience = v },
			"how long an autoscaler is asked for nodes of one domain when none come, before it is asked for nodes of another"),
	}
}

// gangSettings are GPUGang's.
func gangSettings() []setting[GangArgs] {
	return []setting[GangArgs]{
		of("permitTimeout", permitFor, time.Second, time.Hour, func(x *GangArgs) *string { return &x.PermitTimeout }, func(t *tuning, v time.Duration) { t.permit = v },
			"how long a member waits at Permit for the others"),
	}
}

// bindSettings are GPUBind's.
func bindSettings() []setting[BindArgs] {
	return []setting[BindArgs]{
		of("retryEvery", time.Second, 10*time.Millisecond, time.Minute, func(x *BindArgs) *string { return &x.RetryEvery }, func(t *tuning, v time.Duration) { t.bind.every = v },
			"pause between reads of a pod after a Binding without an answer"),
		of("retryFor", time.Minute, time.Second, time.Hour, func(x *BindArgs) *string { return &x.RetryFor }, func(t *tuning, v time.Duration) { t.bind.most = v },
			"how long it is read until it is clear whether the Binding was written"),
	}
}

// claimsSettings are GPUClaims'.
func claimsSettings() []setting[ClaimsArgs] {
	return []setting[ClaimsArgs]{
		of("filterTimeout", filterTimeout, time.Millisecond, time.Hour, func(x *ClaimsArgs) *string { return &x.FilterTimeout }, func(t *tuning, v time.Duration) { t.claims.filter = v },
			"how long the allocator of ResourceClaims may look at one node"),
		of("bindingTimeout", config.DynamicResourcesBindingTimeoutDefault, time.Second, 24*time.Hour, func(x *ClaimsArgs) *string { return &x.BindingTimeout }, func(t *tuning, v time.Duration) { t.claims.bind = v },
			"how long allocated devices may take to become ready"),
	}
}

package engine

import (
	"fmt"
	"strings"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/model"
)

// spellWait is why a gang waits for queues or for what the cluster has in all, in
// units people use.
func spellWait(w arbiter.Wait) string {
	if w.Resource == "" {
		return w.String()
	}
	limit, used, need := spell(w.Resource, w.Limit), spell(w.Resource, w.Used), spell(w.Resource, w.Need)
	switch w.Code {
	case arbiter.Reserved:
		return fmt.Sprintf("waits for capacity: of %s in queue %s, %s are in use or kept for guarantees, needs %s", limit, w.Queue, used, need)
	case arbiter.OverTotal:
		return fmt.Sprintf("waits for capacity: the cluster has %s, %s in use, needs %s", limit, used, need)
	}
	whose := fmt.Sprintf("queue %s", w.Queue)
	if w.Code == arbiter.OverQuota {
		whose = fmt.Sprintf("namespace %s", w.Namespace)
	}
	verb := "waits for quota"
	if w.Never() {
		verb = "can never start"
	}
	return fmt.Sprintf("%s: %s may use %s, %s in use, needs %s", verb, whose, limit, used, need)
}

// spell is an amount of a resource in words.
func spell(r arbiter.Resource, amount int64) string {
	thousandths := func(v int64) string {
		return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%03d", v/model.FullMilli, v%model.FullMilli), "0"), ".")
	}
	kind, name, _ := strings.Cut(string(r), "/")
	switch {
	case r == CPU:
		return thousandths(amount) + " CPUs"
	case r == Memory:
		return fmt.Sprintf("%d MiB of memory", amount)
	case kind == "gpu":
		return thousandths(amount) + " " + name + " GPUs"
	case kind == "model":
		return thousandths(amount) + " GPUs of model " + name
	}
	return fmt.Sprintf("%d %s", amount, r)
}

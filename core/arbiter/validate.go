package arbiter

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

var errTwice = errors.New("metadata.name: there are two")

// ValidateQueues checks the queues alone and together, and reports every mistake
// with the queue and the field it is in. The order of the queues does not matter.
func ValidateQueues(queues []Queue) error {
	byName := map[string]*Queue{}
	var errs []error
	for i := range queues {
		q := &queues[i]
		if byName[q.Name] != nil {
			errs = append(errs, fmt.Errorf("queue %q: %w", q.Name, errTwice))
			continue
		}
		byName[q.Name] = q
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if err := checkQueue(byName[name], byName); err != nil {
			errs = append(errs, fmt.Errorf("queue %q: %w", name, err))
		}
	}
	if len(errs) == 0 {
		// Sums mean something only in a tree.
		sums := checkSums(byName)
		for _, name := range slices.Sorted(maps.Keys(sums)) {
			errs = append(errs, fmt.Errorf("queue %q: %w", name, sums[name]))
		}
	}
	return errors.Join(errs...)
}

// Usable returns the queues that are valid together, so that one invalid queue does not
// keep all others from changing, and the mistakes, by queue. An invalid queue is left
// out, and the queues below it with it; of two queues of one name both are. Guarantees
// of children that their parent cannot keep are dropped, which is a mistake of the
// parent. Every queue that is left out has its mistake under its name. The queues passed
// in are not changed.
func Usable(queues []Queue) (usable []Queue, mistakes map[string]error) {
	all, byName, mistakes := map[string]bool{}, map[string]*Queue{}, map[string]error{}
	for i := range queues {
		q := queues[i]
		if all[q.Name] {
			mistakes[q.Name] = errTwice
		}
		all[q.Name], byName[q.Name] = true, &q
	}
	for name := range mistakes {
		delete(byName, name)
	}
	for found := true; found; {
		found = false
		for _, name := range slices.Sorted(maps.Keys(byName)) {
			err := checkQueue(byName[name], byName)
			if err == nil {
				continue
			}
			if up := byName[name].Parent; all[up] && byName[up] == nil {
				err = fmt.Errorf("spec.parent: queue %q is invalid itself", up)
			}
			found, mistakes[name] = true, err
		}
		for name := range mistakes {
			delete(byName, name)
		}
	}
	// A queue that gives its children nothing may need less itself, so this ends.
	for sums := checkSums(byName); len(sums) > 0; sums = checkSums(byName) {
		maps.Copy(mistakes, sums)
		for _, q := range byName {
			if sums[cmp.Or(q.Parent, Root)] != nil {
				q.Guarantee = nil
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		usable = append(usable, *byName[name])
	}
	return usable, mistakes
}

// checkQueue returns the first mistake of one queue.
func checkQueue(q *Queue, byName map[string]*Queue) error {
	if q.Name == "" {
		return errors.New("metadata.name: is empty")
	}
	if err := checkParent(q, byName); err != nil {
		return err
	}
	switch {
	case q.Weight < 0:
		return fmt.Errorf("spec.weight: %d is negative", q.Weight)
	case q.Weight > MaxWeight:
		return fmt.Errorf("spec.weight: %d is above %d", q.Weight, MaxWeight)
	case q.Order >= numPolicies:
		return fmt.Errorf("order: %d is no policy", q.Order)
	}
	if err := cmp.Or(
		checkAmounts("spec.guarantee", q.Guarantee),
		checkAmounts("spec.deserved", q.Deserved),
		checkAmounts("spec.capability", q.Capability),
	); err != nil {
		return err
	}
	if q.Name == Root && len(q.Guarantee)+len(q.Deserved) > 0 {
		return errors.New("spec: the root queue has the whole cluster; guarantee and deserved mean nothing there")
	}
	return cmp.Or(
		below("spec.capability", q.Capability, "spec.guarantee", q.Guarantee),
		below("spec.capability", q.Capability, "spec.deserved", q.Deserved),
		below("spec.deserved", q.Deserved, "spec.guarantee", q.Guarantee),
	)
}

// below complains when a field that is set is smaller than another.
func below(field string, high map[Resource]int64, floor string, low map[Resource]int64) error {
	for _, r := range slices.Sorted(maps.Keys(low)) {
		if h, ok := high[r]; ok && h < low[r] {
			return fmt.Errorf("%s[%s]: %d is below %s %d", field, r, h, floor, low[r])
		}
	}
	return nil
}

func checkParent(q *Queue, byName map[string]*Queue) error {
	switch {
	case q.Name == Root && q.Parent != "":
		return fmt.Errorf("spec.parent: the root queue has none, got %q", q.Parent)
	case q.Parent == "" || q.Parent == Root:
		return nil
	case q.Parent == Default:
		return fmt.Errorf("spec.parent: %q takes the jobs that name no queue, so it cannot have queues below it", Default)
	case byName[q.Parent] == nil:
		return fmt.Errorf("spec.parent: there is no queue %q", q.Parent)
	}
	path := []string{q.Name}
	for p := q; p != nil && p.Parent != ""; p = byName[p.Parent] {
		path = append(path, p.Parent)
		if p.Parent == q.Name {
			return fmt.Errorf("spec.parent: the parents form a circle: %s", strings.Join(path, " -> "))
		}
		if len(path) > len(byName)+1 {
			return nil // the circle is further up, and is reported there
		}
	}
	return nil
}

// checkSums compares what children are guaranteed with what their parent may use
// and with what it is guaranteed itself, where it says so.
func checkSums(byName map[string]*Queue) map[string]error {
	errs := map[string]error{}
	sums := guarantees(byName)
	for name := range sums { // each for itself
		q := byName[name]
		if q == nil { // the root, where it is not described
			continue
		}
		if err := cmp.Or(
			below("spec.capability", q.Capability, "the guarantees of its children,", sums[name]),
			below("spec.guarantee", q.Guarantee, "the guarantees of its children,", sums[name]),
		); err != nil {
			errs[name] = err
		}
	}
	return errs
}

// guarantees adds up what the children of each queue are guaranteed, by parent.
func guarantees(byName map[string]*Queue) map[string]map[Resource]int64 {
	sums := map[string]map[Resource]int64{}
	for _, q := range byName {
		parent := cmp.Or(q.Parent, Root)
		if q.Name == Root || len(q.Guarantee) == 0 {
			continue
		}
		if sums[parent] == nil {
			sums[parent] = map[Resource]int64{}
		}
		for r, v := range q.Guarantee {
			sums[parent][r] = add(sums[parent][r], v)
		}
	}
	return sums
}

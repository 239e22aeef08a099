package report

import v1 "k8s.io/api/core/v1"

// Complaint is that an object is invalid, and what is wrong with it.
type Complaint struct {
	About           *v1.ObjectReference
	Reason, Message string
}

// Reporter reports a complaint. It must not block.
type Reporter func(Complaint)

// Complaints remembers what is wrong with objects, so that every problem is reported once.
// Not safe for concurrent use.
type Complaints struct {
	last    map[string]string // what was last reported about an object
	pending []Complaint
}

// Set says what is wrong with an object, nil when nothing is; key names the object and what
// it is judged for. A problem that was reported before is not reported again until it has
// changed or gone.
func (c *Complaints) Set(key string, about *v1.ObjectReference, problem error, reason string) {
	if problem == nil {
		delete(c.last, key)
		return
	}
	if c.last[key] == problem.Error() {
		return
	}
	if c.last == nil {
		c.last = map[string]string{}
	}
	c.last[key] = problem.Error()
	c.Add(Complaint{About: about, Reason: reason, Message: problem.Error()})
}

// Clear forgets what was reported about an object that is gone.
func (c *Complaints) Clear(key string) { delete(c.last, key) }

// Add has complaints reported in any case.
func (c *Complaints) Add(list ...Complaint) { c.pending = append(c.pending, list...) }

// Take returns what is to be reported since the last call.
func (c *Complaints) Take() []Complaint {
	out := c.pending
	c.pending = nil
	return out
}

// PodRef names a pod.
func PodRef(p *v1.Pod) *v1.ObjectReference {
	return &v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}

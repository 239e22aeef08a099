package ledger

import (
	"cmp"

	"github.com/tangram-dev/tangram/core/model"
)

// DeviceRef names a device the way a record does. UUID may be empty on nodes
// without an agent; then the index counts.
type DeviceRef struct {
	Index int
	UUID  string
}

// Claim is one holder's hold on devices of one node.
type Claim struct {
	Holder model.HolderID
	Vendor model.Vendor
	// Count is how many whole devices the holder uses.
	Count int
	// Devices are the whole devices it was given: Count of them, or none when there is
	// no valid record (a pod placed by another scheduler). Then the ledger presumes the
	// lowest free ones.
	Devices []DeviceRef
	// Parts are the shares and slices the holder uses. A part without a device is
	// presumed to be on the first it fits on.
	Parts []HeldPart
	// Host and Extras are what the holder uses of its node beside devices. A claim may
	// be of nothing else: every pod on a node counts.
	Host   model.Host
	Extras model.Extras
	// Since is when the holder was bound, in seconds. Of claims without a record the older
	// one gets devices first; ties go to the smaller Holder.
	Since int64
	// Standing orders claims that name the same device. Put finds it when it is not set.
	Standing
	// Priority is the holder's priority.
	Priority int32
	// Assumed claims are not yet seen in the API. A confirmed claim on the same device
	// takes precedence.
	Assumed bool
	// Labels are the holder's, sorted: affinity rules of other holders match them.
	Labels []model.Label
	// Apart are the holder's anti-affinity rules. They apply to holders placed later as
	// they applied to this one.
	Apart []model.AffinityRule
}

// HeldPart is a share or slice of one device.
type HeldPart struct {
	// Device is where it is; unknown when Known is false.
	Device DeviceRef
	Known  bool
	// Part is how much.
	model.Part
	// Start is the memory slice a known Slice begins at.
	Start int
}

// compare orders claims. In this order those without a record get devices, so that it
// does not depend on a ledger's past.
func (c *Claim) compare(o *Claim) int {
	return cmp.Or(falseFirst(c.Assumed, o.Assumed), cmp.Compare(c.Since, o.Since), cmp.Compare(c.Holder, o.Holder))
}

// falseFirst orders false before true.
func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

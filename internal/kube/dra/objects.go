package dra

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Objects are all ResourceSlices, ResourceClaims and DeviceClasses that are known now;
// they are shared and must not be changed.
func (b *Book) Objects() (slices []*resourceapi.ResourceSlice, claims []*resourceapi.ResourceClaim, classes []*resourceapi.DeviceClass) {
	for _, obj := range b.slices.List() {
		slices = append(slices, obj.(*resourceapi.ResourceSlice))
	}
	claims, _ = b.claims.List(labels.Everything()) // stores know no errors
	classes, _ = b.classes.List(labels.Everything())
	return slices, claims, classes
}

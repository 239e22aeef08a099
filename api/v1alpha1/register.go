package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tangram-dev/tangram/api/names"
)

// GroupVersion is tangram.dev/v1alpha1.
var GroupVersion = schema.GroupVersion{Group: names.Group, Version: "v1alpha1"}

// GPUNodes is the resource name of GPUNode objects.
var GPUNodes = GroupVersion.WithResource("gpunodes")

// AddToScheme registers the types of this package.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &GPUNode{}, &GPUNodeList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

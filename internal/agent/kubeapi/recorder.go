package kubeapi

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
)

// NewRecorder writes events until the context ends, in the name of a component. One serves
// any number of senders; it counts repetitions of an event instead of writing them again.
func (c *Client) NewRecorder(ctx context.Context, component string) record.EventRecorder {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&events{c.rest})
	return broadcaster.NewRecorder(scheme, v1.EventSource{Component: component})
}

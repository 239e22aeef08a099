package recovery

import (
	"context"
	"encoding/json"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/core/recovery"
)

// What the mean time between failures is computed from is kept in one ConfigMap, written
// rarely: a mean over months must outlive a controller.
const (
	saveEvery     = 10 * time.Minute
	saveName      = "gpu-controller-reliability"
	saveNamespace = "kube-system"
	saveKey       = "reliability.json"
)

type saved struct {
	at   time.Time
	last recovery.Reliability
}

// load reads what was kept; one that cannot be read is as if there was none.
func (r *Recovery) load(ctx context.Context) (out recovery.Reliability) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r.saved.at = time.Now()
	cm, err := r.Client.CoreV1().ConfigMaps(saveNamespace).Get(ctx, saveName, metav1.GetOptions{})
	if err != nil {
		if !apierrors.IsNotFound(err) {
			klog.FromContext(ctx).Info("Reliability figures could not be read: counting begins anew", "err", err.Error())
		}
		return out
	}
	if err := json.Unmarshal([]byte(cm.Data[saveKey]), &out); err != nil || out.Failures < 0 || out.DeviceSeconds < 0 {
		klog.FromContext(ctx).Info("Reliability figures are not readable: counting begins anew")
		return recovery.Reliability{}
	}
	r.saved.last = out
	return out
}

// save writes the figures when some time has passed, or something has failed since.
func (r *Recovery) save(ctx context.Context, now time.Time) {
	figures := r.machine.Reliability()
	if since := now.Sub(r.saved.at); since < saveEvery && (figures.Failures == r.saved.last.Failures || since < saveEvery/10) {
		return
	}
	r.saved.at = now
	text, err := json.Marshal(figures)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	maps := r.Client.CoreV1().ConfigMaps(saveNamespace)
	cm := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: saveNamespace, Name: saveName}, Data: map[string]string{saveKey: string(text)}}
	if _, err = maps.Update(ctx, cm, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
		_, err = maps.Create(ctx, cm, metav1.CreateOptions{})
	}
	if err != nil {
		klog.FromContext(ctx).Info("Reliability figures could not be kept", "err", err.Error())
		return
	}
	r.saved.last = figures
}

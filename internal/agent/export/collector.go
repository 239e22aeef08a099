package export

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/tangram-dev/tangram/core/health"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

// Options of a collector.
type Options struct {
	// Node is the node's name: the label Hostname.
	Node    string
	Sources Sources
	// MaxAge is how old a sample may be; 1 minute when 0. Without newer ones the series
	// end, as dcgm-exporter's do, instead of standing still.
	MaxAge time.Duration
	// XIDWindow is that of Reading.RecentXIDs.
	XIDWindow time.Duration
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// Collector shows one node's devices.
type Collector struct {
	o                                       Options
	fields                                  []*prometheus.Desc // of metrics, in their order
	health, state, recent, xids, memory, sm *prometheus.Desc
}

// labels are what every series of a device has. Prometheus takes an empty one for
// absent, so GPU_I_* are there for MIG instances only, as with dcgm-exporter.
var labels = []string{"gpu", "UUID", "pci_bus_id", "device", "modelName", "DCGM_FI_DRIVER_VERSION",
	"GPU_I_PROFILE", "GPU_I_ID", "namespace", "pod", "container"}

// NewCollector makes a collector; register it once.
func NewCollector(o Options) *Collector {
	o.MaxAge = cmp.Or(o.MaxAge, time.Minute)
	if o.Now == nil {
		o.Now = time.Now
	}
	host := prometheus.Labels{"Hostname": o.Node}
	desc := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, slices.Concat(labels, more), host)
	}
	c := &Collector{o: o,
		health: desc("DCGM_EXP_GPU_HEALTH_STATUS", "Current GPU health status: 0 healthy, 10 suspect, 20 degraded or failed.", "health_watch", "health_error_code"),
		state:  desc("tangram_agent_device_health", "State of a device: 1 for the one it is in.", "state"),
		recent: desc("DCGM_EXP_XID_ERRORS_COUNT", "XID errors observed during the configured time window.", "xid", "window_size_in_ms"),
		xids:   desc("DCGM_EXP_XID_ERRORS_TOTAL", "Total XID errors observed since exporter start.", "xid"),
		memory: desc("tangram_gpu_share_memory_used_mib", "Device memory that processes of a container use (in MiB)."),
		sm:     desc("tangram_gpu_share_sm_percent", "Share of the time that SMs were busy for processes of a container (in %)."),
	}
	for _, m := range metrics {
		c.fields = append(c.fields, desc(m.name, m.help))
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range slices.Concat(c.fields, []*prometheus.Desc{c.health, c.state, c.recent, c.xids, c.memory, c.sm}) {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	driver := ""
	if c.o.Sources.Driver != nil {
		driver = c.o.Sources.Driver()
	}
	for _, r := range c.o.Sources.Readings() {
		c.device(out, &r, driver)
	}
}

// device sends all series of one device.
func (c *Collector) device(out chan<- prometheus.Metric, r *Reading, driver string) {
	base := c.base(&r.Device, driver)
	whole := base.with("", "", c.holder(r.Device.UUID))
	pairs := whole.pairs()
	// What the device went through before belongs to no pod of today.
	alone := base.with("", "", Holder{})

	code := string(r.Health.Code)
	out <- &value{c.health, prometheus.GaugeValue, status(r.Health.State), whole.pairs("health_watch", "ALL", "health_error_code", code)}
	for _, s := range health.States() {
		in := 0.0
		if s == r.Health.State {
			in = 1
		}
		out <- &value{c.state, prometheus.GaugeValue, in, alone.pairs("state", s.String())}
	}
	window := strconv.FormatInt(c.o.XIDWindow.Milliseconds(), 10)
	for _, xid := range slices.Sorted(maps.Keys(r.XIDs)) {
		x := strconv.Itoa(xid)
		out <- &value{c.xids, prometheus.CounterValue, float64(r.XIDs[xid]), alone.pairs("xid", x)}
		out <- &value{c.recent, prometheus.GaugeValue, float64(r.RecentXIDs[xid]), whole.pairs("xid", x, "window_size_in_ms", window)}
	}

	if c.o.Now().Sub(r.Sample.At) > c.o.MaxAge {
		return
	}
	c.values(out, r.Sample.Values, pairs)
	if r.Device.MIG != nil {
		for _, i := range r.Device.MIG.Instances {
			if v := r.Sample.Instances[i.UUID]; len(v) > 0 && i.UUID != "" {
				c.values(out, v, base.instance(&i, c.holder(i.UUID)).pairs())
			}
		}
	}
	c.shares(out, r, base)
}

func (c *Collector) values(out chan<- prometheus.Metric, values map[device.Field]float64, pairs []*dto.LabelPair) {
	for i := range metrics {
		if v, ok := values[metrics[i].field]; ok {
			out <- &value{c.fields[i], metrics[i].kind, v, pairs}
		}
	}
}

// status is DCGM's number for a state: pass, warning, failure.
func status(s health.State) float64 {
	switch s {
	case health.Healthy:
		return 0
	case health.Suspect:
		return 10
	default:
		return 20
	}
}

// holder is the container whose labels a whole device or instance carries: the one that
// holds it alone. Of several none is named; their parts are in the share metrics.
func (c *Collector) holder(uuid string) Holder {
	if c.o.Sources.Holders == nil {
		return Holder{}
	}
	if all := c.o.Sources.Holders(uuid); len(all) == 1 {
		return all[0]
	}
	return Holder{}
}

// share is what processes of one container use of a device or instance.
type share struct {
	memory int64
	sm     int
	hasSM  bool
}

// shares sums processes by container. Those of no container are one together, so that
// processes never count.
func (c *Collector) shares(out chan<- prometheus.Metric, r *Reading, base series) {
	if c.o.Sources.Process == nil || len(r.Sample.Processes) == 0 {
		return
	}
	type key struct {
		instance string
		holder   Holder
	}
	sums := map[key]share{}
	for _, p := range r.Sample.Processes {
		h, _ := c.o.Sources.Process(p.PID)
		k := key{p.Instance, h}
		s := sums[k]
		s.memory += max(p.MemoryMiB, 0)
		if p.SMPercent >= 0 {
			s.sm, s.hasSM = s.sm+p.SMPercent, true
		}
		sums[k] = s
	}
	for k, s := range sums {
		series := base.with("", "", k.holder)
		if k.instance != "" {
			i := r.Device.Instance(func(i *device.Instance) bool { return i.UUID == k.instance })
			if i == nil {
				continue // gone since the sample
			}
			series = base.instance(i, k.holder)
		}
		pairs := series.pairs()
		out <- &value{c.memory, prometheus.GaugeValue, float64(s.memory), pairs}
		if s.hasSM {
			out <- &value{c.sm, prometheus.GaugeValue, float64(min(s.sm, 100)), pairs}
		}
	}
}

// series are the labels of one series: names and values in turn.
type series []string

// base are the labels of a device.
func (c *Collector) base(d *device.Device, driver string) series {
	return series{"Hostname", c.o.Node, "gpu", strconv.Itoa(d.Index), "UUID", d.UUID, "pci_bus_id", busID(d.PCIBusID),
		"device", "nvidia" + strconv.Itoa(d.Index), "modelName", d.Model, "DCGM_FI_DRIVER_VERSION", driver}
}

func (s series) with(profile, id string, h Holder) series {
	return append(slices.Clip(s), "GPU_I_PROFILE", profile, "GPU_I_ID", id, "namespace", h.Namespace, "pod", h.Pod, "container", h.Container)
}

func (s series) instance(i *device.Instance, h Holder) series {
	return s.with(i.Profile, strconv.Itoa(i.GPUInstance), h)
}

// pairs are the labels as Prometheus's library wants them: sorted by name. Text that is
// no UTF-8 would spoil the whole scrape.
func (s series) pairs(more ...string) []*dto.LabelPair {
	texts := make([]string, 0, len(s)+len(more))
	texts = append(append(texts, s...), more...)
	for i := range texts {
		texts[i] = strings.ToValidUTF8(texts[i], "?")
	}
	made := make([]dto.LabelPair, len(texts)/2)
	out := make([]*dto.LabelPair, len(made))
	for i := range made {
		made[i].Name, made[i].Value = &texts[2*i], &texts[2*i+1]
		out[i] = &made[i]
	}
	slices.SortFunc(out, func(a, b *dto.LabelPair) int { return strings.Compare(*a.Name, *b.Name) })
	return out
}

// busID is a PCI address as DCGM writes it: 0000:1b:00.0 is 00000000:1B:00.0.
func busID(id string) string {
	domain, rest, found := strings.Cut(id, ":")
	if !found || len(domain) >= 8 {
		return strings.ToUpper(id)
	}
	return strings.ToUpper(strings.Repeat("0", 8-len(domain)) + id[:len(domain)] + ":" + rest)
}

// value is one number of a scrape. Numbers of one device share their labels: that is what
// makes a scrape cheap.
type value struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	number float64
	labels []*dto.LabelPair
}

// Desc implements prometheus.Metric.
func (v *value) Desc() *prometheus.Desc { return v.desc }

// Write implements prometheus.Metric.
func (v *value) Write(out *dto.Metric) error {
	out.Label = v.labels
	if v.kind == prometheus.CounterValue {
		out.Counter = &dto.Counter{Value: &v.number}
	} else {
		out.Gauge = &dto.Gauge{Value: &v.number}
	}
	return nil
}

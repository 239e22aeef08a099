package plugin

import (
	"maps"
	"slices"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// ours are Tangram's plugins.
var ours = []string{names.PluginClaims, names.PluginQueue, names.PluginFilter, names.PluginScore, names.PluginReserve, names.PluginGang, names.PluginBind}

// scoreWeight is GPUScore's weight among kube-scheduler's scores when the
// configuration names none: enough that GPUs decide unless several preferences
// agree against them.
const scoreWeight = 10

// CompleteAll completes all profiles of a scheduler.
func CompleteAll(profiles []config.KubeSchedulerProfile) {
	any := slices.ContainsFunc(profiles, func(p config.KubeSchedulerProfile) bool { return p.Plugins != nil && uses(p.Plugins) })
	for i := range profiles {
		Complete(&profiles[i])
		if any {
			SortQueue(&profiles[i])
			steerClaims(&profiles[i])
		}
	}
	shareQueueArgs(profiles)
}

// shareQueueArgs gives GPUQueue's arguments to profiles that say nothing about them:
// kube-scheduler wants all profiles to say the same of the one queue.
func shareQueueArgs(profiles []config.KubeSchedulerProfile) {
	is := func(c config.PluginConfig) bool { return c.Name == names.PluginQueue }
	for _, from := range profiles {
		at := slices.IndexFunc(from.PluginConfig, is)
		if at < 0 {
			continue
		}
		for i := range profiles {
			if to := &profiles[i]; !slices.ContainsFunc(to.PluginConfig, is) {
				to.PluginConfig = append(to.PluginConfig, from.PluginConfig[at])
			}
		}
		return
	}
}

// Complete makes a profile that uses any of Tangram's plugins use all of them at
// all their points. They work as one: what the filter finds the reserve must
// hold and the binding must carry, so a configuration that lists the filter and
// the score only (seed 003's does) means the whole. A plugin the profile
// disables stays disabled.
func Complete(p *config.KubeSchedulerProfile) {
	if p.Plugins == nil || !uses(p.Plugins) {
		return
	}
	steerClaims(p)
	for _, name := range ours {
		if mentions(&p.Plugins.MultiPoint, name) {
			continue
		}
		entry := config.Plugin{Name: name}
		if name == names.PluginScore {
			entry.Weight = scoreWeight
			if i := slices.IndexFunc(p.Plugins.Score.Enabled, named(name)); i >= 0 && p.Plugins.Score.Enabled[i].Weight > 0 {
				entry.Weight = p.Plugins.Score.Enabled[i].Weight
			}
		}
		p.Plugins.MultiPoint.Enabled = append(p.Plugins.MultiPoint.Enabled, entry)
	}
	// First at their points: the cheapest and most telling filter, and the binder that writes
	// the record. At PreFilter GPUFilter stays last: a pod it turns away there must have been
	// prepared by the others, whose PostFilters fail without (DynamicResources).
	first := func(set *config.PluginSet, name string) {
		if !mentions(set, name) {
			set.Enabled = append([]config.Plugin{{Name: name}}, set.Enabled...)
		}
	}
	SortQueue(p)
	first(&p.Plugins.Filter, names.PluginFilter)
	first(&p.Plugins.Bind, names.PluginBind)
	ignoreOurs(p)
	packNodes(p)
}

// packNodes makes kube-scheduler's score by node resources prefer full nodes, with the
// weights that GPUScore's arguments take over from Volcano's binpack.
func packNodes(p *config.KubeSchedulerProfile) {
	var score ScoreArgs
	for _, c := range p.PluginConfig {
		if c.Name == names.PluginScore && decodeArgs(c.Args, &score) != nil {
			return // reported when the plugin is made
		}
	}
	weights := score.NodeResources()
	if len(weights) == 0 {
		return
	}
	for i := range p.PluginConfig {
		args, ok := p.PluginConfig[i].Args.(*config.NodeResourcesFitArgs)
		if !ok {
			continue
		}
		args.ScoringStrategy = &config.ScoringStrategy{Type: config.MostAllocated}
		for _, name := range slices.Sorted(maps.Keys(weights)) {
			args.ScoringStrategy.Resources = append(args.ScoringStrategy.Resources, config.ResourceSpec{Name: name, Weight: weights[name]})
		}
	}
}

// SortQueue makes GPUQueue order the queue. There is one queue for all profiles, so
// all must agree: those without Tangram's plugins too.
func SortQueue(p *config.KubeSchedulerProfile) {
	if p.Plugins == nil {
		p.Plugins = &config.Plugins{}
	}
	is := named(names.PluginQueue)
	if slices.ContainsFunc(p.Plugins.MultiPoint.Disabled, is) || slices.ContainsFunc(p.Plugins.QueueSort.Enabled, is) {
		return
	}
	p.Plugins.QueueSort.Enabled = append(p.Plugins.QueueSort.Enabled, config.Plugin{Name: names.PluginQueue})
	p.Plugins.QueueSort.Disabled = append(p.Plugins.QueueSort.Disabled, config.Plugin{Name: "PrioritySort"})
}

// steerClaims puts GPUClaims in the place of kube-scheduler's DynamicResources, in all
// profiles: what one of them allocates without asking the ledger would be given twice.
func steerClaims(p *config.KubeSchedulerProfile) {
	multi := &p.Plugins.MultiPoint
	if slices.ContainsFunc(multi.Disabled, named(names.PluginClaims)) {
		return
	}
	if !slices.ContainsFunc(multi.Disabled, named(stockClaims)) {
		multi.Disabled = append(multi.Disabled, config.Plugin{Name: stockClaims})
	}
	multi.Enabled = slices.DeleteFunc(multi.Enabled, named(stockClaims))
	if !slices.ContainsFunc(multi.Enabled, named(names.PluginClaims)) {
		multi.Enabled = append(multi.Enabled, config.Plugin{Name: names.PluginClaims, Weight: claimsWeight})
	}
}

// ignoreOurs tells kube-scheduler's own counting of resources to leave alone what
// nodes do not publish: amounts of a card, MIG slices that are cut on demand. Tangram
// counts them.
func ignoreOurs(p *config.KubeSchedulerProfile) {
	for i := range p.PluginConfig {
		args, ok := p.PluginConfig[i].Args.(*config.NodeResourcesFitArgs)
		if !ok {
			continue
		}
		for _, r := range dialect.Unpublished() {
			if !slices.Contains(args.IgnoredResources, r) {
				args.IgnoredResources = append(args.IgnoredResources, r)
			}
		}
	}
}

// named says whether a plugin has a name, mentions whether a set enables or disables it.
func named(name string) func(config.Plugin) bool {
	return func(x config.Plugin) bool { return x.Name == name }
}

func mentions(set *config.PluginSet, name string) bool {
	return slices.ContainsFunc(set.Enabled, named(name)) || slices.ContainsFunc(set.Disabled, named(name))
}

// uses says whether a profile enables any of Tangram's plugins anywhere.
func uses(p *config.Plugins) bool {
	for _, set := range []config.PluginSet{p.MultiPoint, p.PreFilter, p.Filter, p.PreScore, p.Score, p.Reserve, p.Bind} {
		if slices.ContainsFunc(set.Enabled, func(x config.Plugin) bool { return slices.Contains(ours, x.Name) }) {
			return true
		}
	}
	return false
}

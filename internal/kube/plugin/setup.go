package plugin

import (
	"context"
	"fmt"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	schedulerserverconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"

	"github.com/tangram-dev/tangram/internal/kube/binding"
)

// Setup builds a scheduler from command-line options, as kube-scheduler's own
// Setup does, with five differences: --kubeconfig and the other connection flags
// override the configuration file, so that one file serves everywhere; profiles
// are completed; pods go to the places the engine has planned; those that
// wait for it are kept out of the queue; and events stand back for
// bindings.
func (s *Shared) Setup(ctx context.Context, opts *options.Options) (*schedulerserverconfig.CompletedConfig, *scheduler.Scheduler, error) {
	cfg, err := s.loadConfig(ctx, opts.ConfigFile)
	if err != nil {
		return nil, nil, err
	}
	CompleteAll(cfg.Profiles)
	// With a configuration set and no file named, the options apply the flags on top of it.
	opts.ComponentConfig, opts.ConfigFile = cfg, ""
	if errs := opts.Validate(); len(errs) > 0 {
		return nil, nil, utilerrors.NewAggregate(errs)
	}
	c, err := opts.Config(ctx)
	if err != nil {
		return nil, nil, err
	}
	cc := c.Complete()
	s.fence.watch(cc.LeaderElection)
	if s.fenced, err = binding.NewFencedClient(cc.KubeConfig, s.fence.check); err != nil {
		return nil, nil, err
	}
	// Leader election keeps the broadcaster it was built with; pods' events stand back.
	cc.EventBroadcaster.StartRecordingToSink(ctx.Done())
	written, err := s.events.client(cc.KubeConfig, "events", s.events)
	if err != nil {
		return nil, nil, err
	}
	cc.EventBroadcaster = events.NewEventBroadcasterAdapterWithContext(ctx, eventsServed{written})
	if s.standsBack, err = s.events.client(cc.KubeConfig, "conditions", conditions{s.events}); err != nil {
		return nil, nil, err
	}
	recorder := func(name string) events.EventRecorderLogger {
		return boundedRecorder{cc.EventBroadcaster.NewRecorder(name), s.events}
	}
	var completed []config.KubeSchedulerProfile
	sched, err := scheduler.New(ctx, cc.Client, cc.InformerFactory, cc.DynInformerFactory, recorder,
		scheduler.WithComponentConfigVersion(cc.ComponentConfig.APIVersion),
		scheduler.WithKubeConfig(cc.KubeConfig),
		scheduler.WithProfiles(cc.ComponentConfig.Profiles...),
		scheduler.WithPercentageOfNodesToScore(cc.ComponentConfig.PercentageOfNodesToScore),
		scheduler.WithFrameworkOutOfTreeRegistry(s.Registry()),
		scheduler.WithPodMaxBackoffSeconds(cc.ComponentConfig.PodMaxBackoffSeconds),
		scheduler.WithPodInitialBackoffSeconds(cc.ComponentConfig.PodInitialBackoffSeconds),
		scheduler.WithPodMaxInUnschedulablePodsDuration(cc.PodMaxInUnschedulablePodsDuration),
		scheduler.WithExtenders(cc.ComponentConfig.Extenders...),
		scheduler.WithParallelism(cc.ComponentConfig.Parallelism),
		scheduler.WithBuildFrameworkCapturer(func(p config.KubeSchedulerProfile) { completed = append(completed, p) }),
	)
	if err != nil {
		return nil, nil, err
	}
	if err := options.LogOrWriteConfig(klog.FromContext(ctx), opts.WriteConfigTo, &cc.ComponentConfig, completed); err != nil {
		return nil, nil, err
	}
	s.KeepOut(sched)
	s.ScheduleByPlan(sched)
	s.HandleFailures(sched)
	s.keep(cc.Client, cc.ComponentConfig.LeaderElection.ResourceNamespace)
	s.RunLoop(ctx, sched)
	return &cc, sched, nil
}

// loadConfig reads a configuration file, or the default one when none is named:
// kube-scheduler's own default would leave our plugins out.
func (s *Shared) loadConfig(ctx context.Context, file string) (*config.KubeSchedulerConfiguration, error) {
	if file != "" {
		return options.LoadConfigFromFile(klog.FromContext(ctx), file)
	}
	obj, gvk, err := scheme.Codecs.UniversalDecoder().Decode(s.defaults, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("default configuration: %w", err)
	}
	cfg, ok := obj.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("default configuration: is a %s", gvk)
	}
	cfg.APIVersion = gvk.GroupVersion().String()
	return cfg, nil
}

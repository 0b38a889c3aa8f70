//go:build programs

// Command programs is five programs of the lab in one, so that what they share is linked once instead of five times:
// kube-apiserver, kube-controller-manager, kube-scheduler, kwok and metrics-server. It is the one whose name it is called by,
// and does what that one's own main does. The build tag keeps what compiles all packages of the module, such as go vet, from taking
// the minutes that these take.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // for CronJobs

	"github.com/spf13/pflag"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // the JSON log format
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client-go's metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // the metric of the version
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	"sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	"sigs.k8s.io/kwok/pkg/log"
	metricsserver "sigs.k8s.io/metrics-server/cmd/metrics-server/app"
)

// programs run until they end, and return the code to exit with.
var programs = map[string]func() int{
	"kube-apiserver": func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int {
		waitForAPIServer(os.Args[1:])
		return cli.Run(controllermanager.NewControllerManagerCommand())
	},
	"kube-scheduler": func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
	"metrics-server": func() int {
		return cli.Run(metricsserver.NewMetricsServerCommand(genericapiserver.SetupSignalHandler()))
	},
	"kwok":            runKwok,
	"kwok-controller": runKwok, // as kwokctl calls it
}

func main() {
	name, _, _ := strings.Cut(filepath.Base(os.Args[0]), "-v") // such as kwok-v0.8.0
	run := programs[name]
	if run == nil {
		fmt.Fprintf(os.Stderr, "call it by the name of one of %s\n", strings.Join(slices.Sorted(maps.Keys(programs)), ", "))
		os.Exit(2)
	}
	os.Exit(run())
}

// waitForAPIServer waits until the API server of --kubeconfig is ready. The controller manager itself gives up after ten seconds,
// which an API server may take to start on a busy machine. What is wrong with the flag, it says itself.
func waitForAPIServer(args []string) {
	flags := pflag.NewFlagSet("kube-controller-manager", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	kubeconfig := flags.String("kubeconfig", "", "")
	if flags.Parse(args) != nil || *kubeconfig == "" {
		return
	}
	client, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return
	}
	server, err := rest.UnversionedRESTClientFor(dynamic.ConfigFor(client))
	if err != nil {
		return
	}
	for server.Get().AbsPath("/readyz").Do(context.Background()).Error() != nil {
		time.Sleep(time.Second)
	}
}

// runKwok reads the global flags before the command does: the config file that they name has defaults of others. Flags that packages
// of Kubernetes register for every program are not kwok's.
func runKwok() int {
	pflag.CommandLine = pflag.NewFlagSet("kwok", pflag.ExitOnError)
	flags := pflag.NewFlagSet("global", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	ctx, logger := log.InitFlags(genericapiserver.SetupSignalContext(), flags)
	ctx, err := config.InitFlags(ctx, flags)
	if err == nil {
		command := kwok.NewCommand(ctx)
		command.PersistentFlags().AddFlagSet(flags)
		err = command.ExecuteContext(ctx)
	}
	if err != nil {
		logger.Error("kwok ended", "err", err)
		return 1
	}
	return 0
}

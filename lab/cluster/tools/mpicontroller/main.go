// Command mpi-controller runs the MPI operator's own controller as a plain process.
//
// The stock mpi-operator binary listens for health checks on port 8080 of every interface and
// takes a leader lease. A lab needs neither, so this main builds the same controller from the same
// module and runs it alone, with the credentials of a kubeconfig.
package main

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"syscall"

	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/kubeflow/mpi-operator/cmd/mpi-operator/app/options"
	clientset "github.com/kubeflow/mpi-operator/pkg/client/clientset/versioned"
	kubeflowscheme "github.com/kubeflow/mpi-operator/pkg/client/clientset/versioned/scheme"
	informers "github.com/kubeflow/mpi-operator/pkg/client/informers/externalversions"
	"github.com/kubeflow/mpi-operator/pkg/controller"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig file with the operator's credentials")
	flag.Parse()
	if err := run(*kubeconfig); err != nil {
		klog.ErrorS(err, "The MPI controller ended")
		klog.Flush()
		os.Exit(1)
	}
}

func run(kubeconfig string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 50, 100
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	jobs, err := clientset.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := kubeflowscheme.AddToScheme(scheme.Scheme); err != nil {
		return err
	}
	core := kubeinformers.NewSharedInformerFactory(kube, 0)
	kubeflow := informers.NewSharedInformerFactory(jobs, 0)
	ctl, err := controller.NewMPIJobController(
		ctx, kube, jobs, nil, nil,
		core.Core().V1().ConfigMaps(), core.Core().V1().Secrets(), core.Core().V1().Services(),
		core.Batch().V1().Jobs(), core.Core().V1().Pods(), core.Scheduling().V1().PriorityClasses(),
		kubeflow.Kubeflow().V2beta1().MPIJobs(), operatorDefaults(),
	)
	if err != nil {
		return err
	}
	core.Start(ctx.Done())
	kubeflow.Start(ctx.Done())
	return ctl.Run(2, ctx.Done())
}

// operatorDefaults are the defaults of the stock binary's flags: a zero queue burst blocks for ever.
func operatorDefaults() *options.ServerOption {
	opt := options.NewServerOption()
	opt.Threadiness, opt.ControllerRateLimit, opt.ControllerBurst = 2, 10, 100
	return opt
}

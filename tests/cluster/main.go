// Command control-plane is a Kubernetes control plane for tests, in one binary and from Go modules alone: etcd,
// kube-apiserver and kube-controller-manager, the commands that start and stop the three together, and kubectl.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // the client metrics that Kubernetes' own binaries have
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"

	"operator-bounds/tests/cluster/plane"
)

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case plane.Etcd:
			shiftArguments()
			etcdmain.Main(os.Args)
			return
		case plane.APIServer:
			shiftArguments()
			os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
		case plane.ControllerManager:
			shiftArguments()
			os.Exit(cli.Run(controllermanager.NewControllerManagerCommand()))
		case "kubectl":
			shiftArguments()
			kubectlutil.CheckErr(cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()))
			return
		}
	}
	os.Exit(plane.Main(os.Args[1:], os.Stdout, os.Stderr))
}

// shiftArguments makes the component's name argument zero, as if the component were a binary of its own.
func shiftArguments() {
	os.Args = os.Args[1:]
}

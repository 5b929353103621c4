package plane

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// The components, by the names of their binaries.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
)

// components in the order in which they are started; they are stopped in the opposite order.
var components = []string{Etcd, APIServer, ControllerManager}

// program is the command that runs a component: this binary, or what KUBEBUILDER_ASSETS has (the convention of
// controller-runtime's envtest).
func program(name string, log io.Writer) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		return []string{self, name}, nil
	}
	path, err := filepath.Abs(filepath.Join(assets, name))
	if err != nil {
		return nil, err
	}
	if _, err = os.Stat(path); err == nil {
		return []string{path}, nil
	}
	if name == ControllerManager {
		// envtest does not bring one. Without it no role is aggregated and no namespace goes away.
		fmt.Fprintf(log, "  KUBEBUILDER_ASSETS has no %s: the built-in one is used\n", name)
		return []string{self, name}, nil
	}
	return nil, fmt.Errorf("KUBEBUILDER_ASSETS is set, but has no %s: %w", name, err)
}

// ports are the loopback ports of one cluster. The controller manager serves nothing.
type ports struct{ etcdClient, etcdPeer, api int }

func etcdArguments(at Layout, p ports) []string {
	client, peer := loopbackURL(p.etcdClient), loopbackURL(p.etcdPeer)
	return []string{
		"--name=test",
		"--data-dir=" + at.data(),
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=test=" + peer,
		// Loopback is open to everybody on the machine; a CA of its own keeps all but the API server out.
		"--client-cert-auth", "--trusted-ca-file=" + at.pki("etcd-ca.crt"),
		"--cert-file=" + at.pki("etcd.crt"), "--key-file=" + at.pki("etcd.key"),
		"--peer-client-cert-auth", "--peer-trusted-ca-file=" + at.pki("etcd-ca.crt"),
		"--peer-cert-file=" + at.pki("etcd.crt"), "--peer-key-file=" + at.pki("etcd.key"),
		"--unsafe-no-fsync", // nobody will miss the data after a crash of the machine
		"--log-level=warn",
	}
}

func apiServerArguments(at Layout, p ports, options Options) []string {
	authorization := "--authorization-mode=RBAC"
	if options.Authorization != "" {
		authorization = "--authorization-config=" + options.Authorization // the API server takes one or the other
	}
	return append([]string{
		"--etcd-servers=" + loopbackURL(p.etcdClient),
		"--etcd-cafile=" + at.pki("etcd-ca.crt"),
		"--etcd-certfile=" + at.pki("etcd.crt"), "--etcd-keyfile=" + at.pki("etcd.key"),
		"--bind-address=" + loopback, "--advertise-address=" + loopback,
		fmt.Sprintf("--secure-port=%d", p.api),
		"--tls-cert-file=" + at.pki("server.crt"), "--tls-private-key-file=" + at.pki("server.key"),
		"--client-ca-file=" + at.pki("ca.crt"),
		authorization,
		"--anonymous-auth=false",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + at.pki("service-accounts.key"),
		"--service-account-signing-key-file=" + at.pki("service-accounts.key"),
		"--service-cluster-ip-range=" + serviceRange,
		// Nobody routes to the service `kubernetes`, and a loopback address is no valid endpoint.
		"--endpoint-reconciler-type=none",
		"--allow-privileged",
	}, options.APIServerArguments...)
}

func controllerManagerArguments(at Layout) []string {
	return []string{
		"--kubeconfig=" + at.controllerKubeconfig(),
		"--secure-port=0",
		"--leader-elect=false", // there is only one
		// Each controller writes as its own account, as in a real cluster: policies see who writes.
		"--use-service-account-credentials",
		"--service-account-private-key-file=" + at.pki("service-accounts.key"),
		"--root-ca-file=" + at.pki("ca.crt"),
		"--service-cluster-ip-range=" + serviceRange,
	}
}

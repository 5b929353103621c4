package plane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// Options are what a new cluster can differ in.
type Options struct {
	Name  string    // in the kubeconfig
	OLMv1 string    // generation of OLM v1's schema, or "none"
	CRDs  string    // directory of CustomResourceDefinitions; empty: beside the binary
	Port  int       // of the API server; 0: a free one
	Log   io.Writer // progress

	Authorization      string   // file with an AuthorizationConfiguration; empty: RBAC alone
	APIServerArguments []string // more flags for kube-apiserver
	WithoutControllers bool     // no controller manager: objects stay as they are written
}

// patience is how long a start may take. It takes seconds; a loaded CI machine gets some more.
const patience = 3 * time.Minute

// Up starts a cluster and returns when it is of use: ready, OLM's definitions served, roles aggregated, accounts made.
// When it fails, or the context ends, nothing is left running.
func Up(ctx context.Context, at Layout, options Options) (err error) {
	files, err := definitions(options.CRDs, options.OLMv1)
	if err != nil {
		return err
	}
	if err := at.create(); err != nil {
		return err
	}
	lock, err := at.lock()
	if err != nil {
		return err
	}
	defer lock.Close()
	for _, name := range components {
		if pid := running(at, name); pid != 0 {
			return fmt.Errorf("there is a cluster in %s already (%s is process %d): stop it first with `control-plane down`", at.Dir, name, pid)
		}
	}

	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not up after %s", patience))
	defer cancel()
	for attempt := 1; ; attempt++ {
		err = startAll(ctx, at, lock, options, files)
		if err == nil {
			fmt.Fprintf(options.Log, "  up after %.1f s\n", time.Since(began).Seconds())
			return nil
		}
		if stopped := stopAll(at, io.Discard); stopped != nil {
			return errors.Join(err, stopped)
		}
		if errors.Is(ctx.Err(), context.Canceled) {
			return fmt.Errorf("%w: what was started is stopped again", context.Cause(ctx))
		}
		if attempt == 3 || options.Port != 0 || !errors.Is(err, errPortTaken) {
			return err
		}
		fmt.Fprintln(options.Log, "  a port was taken meanwhile: once more with others")
	}
}

func startAll(ctx context.Context, at Layout, lock *os.File, options Options, definitions []string) error {
	if err := at.removeData(); err != nil {
		return err
	}
	if err := at.create(); err != nil {
		return err
	}
	if err := at.removeLogs(); err != nil {
		return err
	}
	p, err := choosePorts(options.Port)
	if err != nil {
		return err
	}
	if err := writeCertificates(at, options.Name, p); err != nil {
		return err
	}
	api, err := connect(at.Kubeconfig())
	if err != nil {
		return err
	}

	startOne := func(name string, args []string, ready func(context.Context) error) error {
		return startAndWait(ctx, at, lock, options.Log, name, args, ready)
	}

	if err := startOne(Etcd, etcdArguments(at, p), func(context.Context) error { return accepts(p.etcdClient) }); err != nil {
		return err
	}
	if err := startOne(APIServer, apiServerArguments(at, p, options), api.ready); err != nil {
		return err
	}
	if _, err := api.apply(ctx, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", []byte(plainAdminBinding)); err != nil {
		return err
	}
	// The controller manager takes a moment to start its controllers: the definitions are applied meanwhile.
	applied := make(chan error, 1)
	go func() { applied <- applyDefinitions(ctx, api, definitions) }()
	if !options.WithoutControllers {
		err = startOne(ControllerManager, controllerManagerArguments(at), func(ctx context.Context) error { return controllersWork(ctx, api) })
	}
	if err = errors.Join(err, <-applied); err == nil {
		fmt.Fprintf(options.Log, "  %d CustomResourceDefinitions of OLM\n", len(definitions))
	}
	return err
}

// startAndWait starts a component and waits until it is ready. If it does not become ready, it is not left running.
func startAndWait(ctx context.Context, at Layout, lock *os.File, log io.Writer, name string, args []string, ready func(context.Context) error) error {
	command, err := program(name, log)
	if err != nil {
		return err
	}
	command = append(command, args...)
	if err := remember(at, name, command); err != nil {
		return err
	}
	return startCommand(ctx, at, lock, log, name, command, ready)
}

func startCommand(ctx context.Context, at Layout, lock *os.File, log io.Writer, name string, command []string, ready func(context.Context) error) error {
	fmt.Fprintf(log, "  %s\n", name)
	p, err := start(at, lock, name, command)
	if err != nil {
		return err
	}
	waiting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		select {
		case <-p.ended:
			stop(errors.New(name + " has ended"))
		case <-waiting.Done():
		}
	}()
	err = eventually(waiting, func() error { return ready(waiting) })
	select {
	case <-p.ended:
		return p.obituary() // also when something else answered in its place
	default:
	}
	if err != nil {
		p.abort()
		return fmt.Errorf("%s is not ready: %w; the end of %s:\n%s", name, err, p.log, tail(p.log, 15))
	}
	return nil
}

// accepts is nil when something listens.
func accepts(port int) error {
	connection, err := net.DialTimeout("tcp", address(port), time.Second)
	if err != nil {
		return err
	}
	return connection.Close()
}

const plainAdminBinding = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: plain-admin
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: plain-admin}]
`

// controllersWork is nil when two controllers that tests rely on have done something: the default service account is
// there, and the aggregated role `view` has rules.
func controllersWork(ctx context.Context, api *client) error {
	var account struct{}
	if err := api.get(ctx, "/api/v1/namespaces/default/serviceaccounts/default", &account); err != nil {
		return err
	}
	var role struct{ Rules []any }
	if err := api.get(ctx, "/apis/rbac.authorization.k8s.io/v1/clusterroles/view", &role); err != nil {
		return err
	}
	if len(role.Rules) == 0 {
		return errors.New("the ClusterRole view is not aggregated yet")
	}
	return nil
}

// Down stops what runs for a directory, whoever started it, and removes its data.
func Down(at Layout, out io.Writer) error {
	if _, err := os.Stat(at.Dir); errors.Is(err, os.ErrNotExist) {
		_, err = fmt.Fprintf(out, "nothing to stop: %s does not exist\n", at.Dir)
		return err
	}
	lock, err := at.lock()
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := stopAll(at, out); err != nil {
		return err
	}
	return at.removeData()
}

// stopAll stops every component, also when one of them cannot be stopped.
func stopAll(at Layout, out io.Writer) error {
	var failures []error
	for i := len(components) - 1; i >= 0; i-- {
		name := components[i]
		killed, err := kill(at, name)
		switch {
		case err != nil:
			failures = append(failures, err)
		case killed:
			fmt.Fprintf(out, "stopped %s\n", name)
		default:
			fmt.Fprintf(out, "%s was not running\n", name)
		}
	}
	return errors.Join(failures...)
}

// Package plane starts, watches and stops a control plane for tests. It needs none of Kubernetes' packages: it speaks
// to the API server over HTTP like everybody else, so it is quick to compile and to test.
package plane

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

const usage = `A Kubernetes control plane for tests: etcd, kube-apiserver and kube-controller-manager on loopback.

  control-plane up     --dir DIR [--name NAME] [--olm-v1 GENERATION] [--port PORT] [--crds DIR]
                       [--authorization-config FILE] [--apiserver-arg KEY=VALUE]… [--without-controllers]
  control-plane status --dir DIR
  control-plane restart --dir DIR
  control-plane down   --dir DIR
  control-plane etcd|kube-apiserver|kube-controller-manager [FLAGS]    one component, as its own binary would be
  control-plane kubectl [ARGUMENTS]                                    the same, for those who have none

up      starts a new cluster, applies OLM's CustomResourceDefinitions and writes DIR/kubeconfig
        --name    what the cluster is called in the kubeconfig (operator-bounds)
        --olm-v1  schema of OLM v1: early, required, deprecated, required-experimental, deprecated-experimental,
                  or none (deprecated)
        --port    the API server's port (a free one)
        --crds    where build.sh has put the CustomResourceDefinitions (beside this binary)
        --authorization-config  a file with an AuthorizationConfiguration, for more than RBAC
        --apiserver-arg         a flag of kube-apiserver, without its dashes: audit-log-path=/tmp/audit.log; may be repeated
        --without-controllers   no kube-controller-manager: nothing is collected, aggregated or made by itself
status  what is running, and how much memory it takes
restart ends the API server as a crash would, and starts it again with the same data; returns when it is ready
down    stops everything that was started for DIR and removes its data; the logs stay

KUBEBUILDER_ASSETS: a directory with etcd and kube-apiserver, and possibly kube-controller-manager, to use instead.
Exit codes: 0 done, 1 not running (status), 2 could not do it.
`

// Exit codes.
const (
	exitOK          = 0
	exitNotRunning  = 1
	exitCouldNotRun = 2
)

// errNotRunning says that a cluster is not, or not completely, running; what is missing is already printed.
var errNotRunning = errors.New("not running")

// Main runs one command and returns its exit code.
func Main(args []string, out, err io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch failure := run(ctx, args, out, err); {
	case failure == nil:
		return exitOK
	case errors.Is(failure, errNotRunning):
		return exitNotRunning
	default:
		fmt.Fprintf(err, "control-plane: %v\n", failure)
		return exitCouldNotRun
	}
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	if len(args) == 0 {
		return errors.New("which command? `control-plane help` lists them")
	}
	command, args := args[0], args[1:]
	if command == recordAndExec {
		return recordPIDAndExec(args)
	}

	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are printed by Main
	dir := flags.String("dir", "", "")
	options := Options{Log: progress}
	var act func(Layout) error
	switch command {
	case "help", "-h", "--help":
		_, err := io.WriteString(out, usage)
		return err
	case "up":
		flags.StringVar(&options.Name, "name", "operator-bounds", "")
		flags.StringVar(&options.OLMv1, "olm-v1", "deprecated", "")
		flags.StringVar(&options.CRDs, "crds", "", "")
		flags.IntVar(&options.Port, "port", 0, "")
		flags.BoolVar(&options.WithoutControllers, "without-controllers", false, "")
		flags.Func("authorization-config", "", func(file string) (err error) {
			options.Authorization, err = filepath.Abs(file) // components run in the cluster's directory
			return err
		})
		flags.Func("apiserver-arg", "", func(argument string) error {
			if key, _, ok := strings.Cut(argument, "="); !ok || key == "" || strings.HasPrefix(key, "-") {
				return fmt.Errorf("%q is not KEY=VALUE, without dashes", argument)
			}
			options.APIServerArguments = append(options.APIServerArguments, "--"+argument)
			return nil
		})
		act = func(at Layout) error { return upAndTell(ctx, at, options, out) }
	case "status":
		act = func(at Layout) error { return Status(ctx, at, out) }
	case "restart":
		act = func(at Layout) error { return Restart(ctx, at, progress) }
	case "down":
		act = func(at Layout) error { return Down(at, out) }
	default:
		return fmt.Errorf("unknown command %q; `control-plane help` lists them", command)
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			_, err = io.WriteString(out, usage)
		}
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%s: unexpected argument %q", command, flags.Arg(0))
	}
	if *dir == "" {
		return fmt.Errorf("%s: --dir DIR is needed: where the cluster's files are", command)
	}
	absolute, err := filepath.Abs(*dir)
	if err != nil {
		return err
	}
	return act(Layout{Dir: absolute})
}

func upAndTell(ctx context.Context, at Layout, options Options, out io.Writer) error {
	if err := Up(ctx, at, options); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "KUBECONFIG=%s\nto stop: %s down --dir %s\n", quote(at.Kubeconfig()), quote(self), quote(at.Dir))
	return err
}

// quote makes a path safe to paste into a shell.
func quote(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool { return strings.ContainsRune(" \t\n'\"\\$`&;|<>()*?[]#~", r) }) {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}

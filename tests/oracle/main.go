// Command oracle asks Kubernetes' own Go code which RBAC rules cover which, and holds
// `operator-bounds diff --jsonl` to its answers.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// Exit codes. A difference and a broken set-up are told apart so that CI never takes one for the other.
const (
	exitOK          = 0
	exitDifferences = 1
	exitCouldNotRun = 2
)

// errDifferences says that the comparison ran and found differences, which are already printed.
var errDifferences = errors.New("differences found")

// streams are the process's three streams, so that tests can run a subcommand in-process.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// subcommand is one thing that oracle does. `define` adds its flags and returns what runs once they are parsed.
type subcommand struct {
	name, synopsis, help string
	define               func(*flag.FlagSet) func(streams) error
}

var subcommands = []subcommand{answerCommand, drawCommand, compareCommand, benchCommand}

func main() {
	os.Exit(run(os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}))
}

func run(args []string, s streams) int {
	if len(args) == 0 {
		fmt.Fprint(s.err, usage())
		return exitCouldNotRun
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		fmt.Fprint(s.out, usage())
		return exitOK
	}
	for _, c := range subcommands {
		if c.name == args[0] {
			return c.execute(args[1:], s)
		}
	}
	fmt.Fprintf(s.err, "oracle: unknown subcommand %q; `oracle --help` lists them\n", args[0])
	return exitCouldNotRun
}

func (c subcommand) execute(args []string, s streams) int {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	// The flag package would print errors and usage in its own way; both are printed here instead.
	flags.SetOutput(io.Discard)
	start := c.define(flags)
	err := flags.Parse(args)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err == nil {
		err = start(s)
	}
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errDifferences):
		return exitDifferences
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(s.out, "Usage: oracle %s\n\n%s\n", c.synopsis, c.help)
		flags.SetOutput(s.out)
		flags.PrintDefaults()
		return exitOK
	default:
		fmt.Fprintf(s.err, "oracle %s: %v (`oracle %s --help` explains it)\n", c.name, err, c.name)
		return exitCouldNotRun
	}
}

func usage() string {
	text := "oracle: Kubernetes' own answer (Covers of k8s.io/component-helpers) to: do these rules cover those?\n\nUsage:\n"
	for _, c := range subcommands {
		text += "  oracle " + c.synopsis + "\n"
	}
	return text + "\nExit codes: 0 ok, 1 differences found, 2 could not run. `oracle SUBCOMMAND --help` says more.\n"
}

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	pairsFile     = "covers-pairs.jsonl.gz"
	edgeCasesFile = "covers-edge-cases.jsonl.gz"

	// shownDifferences is how many differences are printed in full: one cause usually makes thousands.
	shownDifferences = 5
	// binaryTimeout ends a binary that hangs; a healthy one needs seconds.
	binaryTimeout = 10 * time.Minute
)

var compareCommand = subcommand{
	name:     "compare",
	synopsis: "compare --binary PATH [--seed N] [--pairs N] [--corpus DIR]",
	help: `Draws pairs, runs "PATH diff --jsonl" with them on stdin, and compares its verdicts and uncovered
atoms (order and all fields) with those of Covers. With --corpus also the stored pairs of
DIR/covers-pairs.jsonl.gz and DIR/covers-edge-cases.jsonl.gz: the stored answer, a fresh Covers
and the binary must all agree. Prints the first differences in full and a closing line
"oracle: N passed, M failed".`,
	define: func(flags *flag.FlagSet) func(streams) error {
		var c comparison
		flags.StringVar(&c.binary, "binary", "", "the operator-bounds binary under test (required)")
		flags.Uint64Var(&c.seed, "seed", 1, "seed of the drawn pairs")
		flags.IntVar(&c.pairs, "pairs", 20000, "how many pairs to draw")
		flags.StringVar(&c.corpus, "corpus", "", "directory of stored pairs (none when empty)")
		return c.run
	},
}

type comparison struct {
	binary, corpus string
	seed           uint64
	pairs          int

	passed, failed int
}

// question is a line for the binary and what everybody must answer to it.
type question struct {
	line []byte
	want answer
	// stored is the corpus's answer; nil for drawn pairs.
	stored *answer
}

func (c *comparison) run(s streams) error {
	if c.binary == "" {
		return errors.New("--binary is required")
	}
	drawn, err := c.drawnQuestions()
	if err != nil {
		return err
	}
	if err := c.compare(s, fmt.Sprintf("drawn with seed %d", c.seed), drawn); err != nil {
		return err
	}
	if err := c.compareCorpus(s); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "oracle: %d passed, %d failed\n", c.passed, c.failed)
	if c.failed > 0 {
		return errDifferences
	}
	return nil
}

func (c *comparison) compareCorpus(s streams) error {
	if c.corpus == "" {
		return nil
	}
	if _, err := os.Stat(c.corpus); errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(s.out, "WARNING: corpus not found at %s: 2,300 stored pairs NOT compared\n", c.corpus)
		return nil
	}
	for _, name := range []string{pairsFile, edgeCasesFile} {
		questions, err := storedQuestions(filepath.Join(c.corpus, name))
		if err != nil {
			return err
		}
		if err := c.compare(s, name, questions); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparison) drawnQuestions() ([]question, error) {
	drawn, err := drawPairs(c.seed, c.pairs)
	if err != nil {
		return nil, err
	}
	questions := make([]question, len(drawn))
	for i, d := range drawn {
		var p pair
		line := d.line()
		if err := decode(line, &p); err != nil {
			return nil, fmt.Errorf("drawn pair %d does not parse: %w", i+1, err)
		}
		questions[i] = question{line: line, want: ask(p)}
	}
	return questions, nil
}

func storedQuestions(path string) ([]question, error) {
	lines, err := readGzipLines(path)
	if err != nil {
		return nil, err
	}
	questions := make([]question, len(lines))
	for i, line := range lines {
		var p storedPair
		if err := decode(line, &p); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, i+1, err)
		}
		// The binary gets the line as it is, answer and all: it must ignore what it does not know.
		questions[i] = question{line: line, want: ask(p.pair), stored: &p.answer}
	}
	return questions, nil
}

// compare puts the questions to the binary in one run and adds up how many it answers as Covers does.
func (c *comparison) compare(s streams, source string, questions []question) error {
	replies, runErr := askBinary(c.binary, questions)
	if runErr != nil && len(replies) == 0 {
		return runErr
	}
	passed, failed, covered := 0, 0, 0
	for i, q := range questions {
		if *q.want.Covers {
			covered++
		}
		var reply []byte // stays empty where the binary ended too early
		if i < len(replies) {
			reply = replies[i]
		}
		reason := q.judge(reply)
		if reason == "" {
			passed++
			continue
		}
		failed++
		if c.failed+failed <= shownDifferences {
			if err := q.show(s, fmt.Sprintf("%s, pair %d: %s", source, i+1, reason), reply); err != nil {
				return err
			}
		}
	}
	if surplus := len(replies) - len(questions); surplus > 0 {
		fmt.Fprintf(s.out, "DIFFERENCE %s: %d more lines than pairs\n", source, surplus)
		failed += surplus
	}
	c.passed += passed
	c.failed += failed
	fmt.Fprintf(s.out, "%s: %d passed, %d failed (%d of %d covered)\n", source, passed, failed, covered, len(questions))
	if runErr != nil && failed == 0 {
		return runErr // every answer is right, and still the binary says that it failed
	}
	if runErr != nil {
		fmt.Fprintf(s.out, "%s: %v\n", source, runErr)
	}
	return nil
}

// judge says in what way the answers to a question disagree; "" when they all agree.
func (q question) judge(reply []byte) string {
	if q.stored != nil && !q.stored.equal(q.want) {
		return "the stored answer is not that of Covers"
	}
	if len(reply) == 0 {
		return "the binary gave no answer"
	}
	var got answer
	if err := decode(reply, &got); err != nil {
		return "the binary's line is not an answer: " + err.Error()
	}
	if got.Covers == nil {
		return `the binary's answer has no "covers"`
	}
	if *got.Covers != *q.want.Covers {
		return "the binary's verdict differs"
	}
	if !got.equal(q.want) {
		return "the binary's uncovered atoms differ"
	}
	return ""
}

func (q question) show(s streams, title string, reply []byte) error {
	want, err := q.want.line()
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "DIFFERENCE %s\n  pair:   %s\n  Covers: %s  binary: %s\n", title, q.line, want, reply)
	if q.stored != nil {
		stored, err := q.stored.line()
		if err != nil {
			return err
		}
		fmt.Fprintf(s.out, "  stored: %s", stored)
	}
	return nil
}

// askBinary runs `binary diff --jsonl` and returns the lines it printed. Exit code 1 is no error:
// `diff` uses it for "not covered".
func askBinary(binary string, questions []question) ([][]byte, error) {
	var in, out, complaints bytes.Buffer
	for _, q := range questions {
		in.Write(q.line)
		in.WriteByte('\n')
	}
	ctx, cancel := context.WithTimeout(context.Background(), binaryTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, binary, "diff", "--jsonl")
	// os/exec feeds stdin and drains both outputs in goroutines of their own, so full pipes cannot deadlock,
	// and a binary that stops reading early is no error of ours.
	command.Stdin, command.Stdout, command.Stderr = &in, &out, &complaints
	command.WaitDelay = time.Second
	err := command.Run()
	replies := splitLines(out.Bytes())
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == exitDifferences {
		return replies, nil
	}
	if err != nil {
		return replies, fmt.Errorf("%s diff --jsonl: %w; it printed on stderr: %q", binary, err, tail(complaints.Bytes()))
	}
	return replies, nil
}

// tail keeps the end of a long complaint: that is where a panic says what happened.
func tail(text []byte) []byte {
	return text[max(0, len(text)-2000):]
}

package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain lets the test binary stand in for the binary under test: the fakes are shell scripts, and the
// honest one calls back here for its answers.
func TestMain(m *testing.M) {
	if os.Getenv("ORACLE_TEST_ANSWERS") != "" {
		os.Exit(run([]string{"answer"}, streams{os.Stdin, os.Stdout, os.Stderr}))
	}
	os.Exit(m.Run())
}

// fake writes a shell script that is run as `script diff --jsonl`; "$SELF" in it is an honest answerer.
func fake(t *testing.T, script string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "fake")
	text := "#!/bin/sh\nSELF='env ORACLE_TEST_ANSWERS=1 " + self + "'\n[ \"$*\" = 'diff --jsonl' ] || exit 2\n" + script + "\n"
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// corpus writes the two stored files with one line each.
func corpus(t *testing.T, line string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{pairsFile, edgeCasesFile} {
		var zipped bytes.Buffer
		writer := gzip.NewWriter(&zipped)
		if _, err := writer.Write([]byte(line + "\n")); err != nil {
			t.Fatal(err)
		}
		if err := writer.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), zipped.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const (
	honest     = `exec $SELF`
	rightLine  = `{"owner":[],"requested":[{"verbs":["get"],"nonResourceURLs":["/a"]}],"covers":false,"uncovered":[{"verbs":["get"],"nonResourceURLs":["/a"]}]}`
	staleLine  = `{"owner":[],"requested":[{"verbs":["get"],"nonResourceURLs":["/a"]}],"covers":true,"uncovered":[]}`
	lowerGroup = `{"owner":[],"requested":[{"verbs":["get"],"apigroups":[""],"resources":["pods"]}],"covers":true,"uncovered":[]}`
)

func TestCompare(t *testing.T) {
	for _, test := range []struct {
		name, script string
		args         []string
		code         int
		says         string
	}{
		{"an honest binary passes", honest, nil, exitOK, "oracle: 300 passed, 0 failed\n"},
		{"exit code 1 of the binary is no error", `$SELF; exit 1`, nil, exitOK, "oracle: 300 passed, 0 failed\n"},
		{"all true is found out", `while read -r line; do echo '{"covers":true,"uncovered":[]}'; done`, nil, exitDifferences, "verdict differs"},
		{"lost atoms are found out", `$SELF | sed 's/"uncovered":.*/"uncovered":[]}/'`, nil, exitDifferences, "uncovered atoms differ"},
		{"atoms in another order are found out", `$SELF | sed 's/"uncovered":\[\({[^}]*}\),\(.*\)\]}$/"uncovered":[\2,\1]}/'`, nil, exitDifferences, "uncovered atoms differ"},
		{"an answer without a verdict is found out", `$SELF | sed 's/"covers"/"cover"/'`, nil, exitDifferences, `no "covers"`},
		{"a line that is no JSON is found out", `$SELF | sed '7s/.*/oops/'`, nil, exitDifferences, "pair 7: the binary's line is not an answer"},
		{"a line too many is found out", `$SELF; echo '{"covers":true}'`, nil, exitDifferences, "1 more lines than pairs"},
		{"a crash on the way is found out", `$SELF | head -n 100; echo boom >&2; exit 101`, nil, exitDifferences, "oracle: 100 passed, 200 failed\n"},
		{"a binary that answers nothing could not run", `echo 'unknown subcommand' >&2; exit 2`, nil, exitCouldNotRun, "unknown subcommand"},
		{"right answers and a failure could not run", `$SELF; exit 3`, nil, exitCouldNotRun, "exit status 3"},
		{"the corpus is compared", honest, []string{"--corpus", corpus(t, rightLine)}, exitOK, "oracle: 302 passed, 0 failed\n"},
		{"keys of the corpus are case-sensitive", honest, []string{"--corpus", corpus(t, lowerGroup)}, exitOK, "oracle: 302 passed, 0 failed\n"},
		{"a wrong stored answer is found out", honest, []string{"--corpus", corpus(t, staleLine)}, exitDifferences, "the stored answer is not that of Covers"},
		{"a missing corpus is said loudly", honest, []string{"--corpus", "/nowhere"}, exitOK, "corpus not found at /nowhere: 2,300 stored pairs NOT compared"},
		{"an empty corpus could not run", honest, []string{"--corpus", t.TempDir()}, exitCouldNotRun, pairsFile},
	} {
		t.Run(test.name, func(t *testing.T) {
			var said bytes.Buffer
			args := append([]string{"compare", "--binary", fake(t, test.script), "--pairs", "300"}, test.args...)
			if code := run(args, streams{out: &said, err: &said}); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			if !strings.Contains(said.String(), test.says) {
				t.Errorf("it does not say %q but:\n%s", test.says, said.String())
			}
		})
	}
}

func TestCompareShowsFiveDifferencesOnly(t *testing.T) {
	var said bytes.Buffer
	run([]string{"compare", "--pairs", "300", "--binary", fake(t, `yes '{"covers":true}' | head -n 300`)}, streams{out: &said, err: &said})
	if shown := strings.Count(said.String(), "DIFFERENCE"); shown != shownDifferences {
		t.Errorf("%d differences shown, want %d", shown, shownDifferences)
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestCommandLine(t *testing.T) {
	for _, test := range []struct {
		name, args, in string
		code           int
		out, err       string
	}{
		{"help lists the subcommands", "--help", "", exitOK, "oracle compare --binary PATH", ""},
		{"help of a subcommand lists its flags", "draw --help", "", exitOK, "-seed", ""},
		{"nothing asked", "", "", exitCouldNotRun, "", "Usage:"},
		{"unknown subcommand", "drow", "", exitCouldNotRun, "", `unknown subcommand "drow"`},
		{"unknown flag", "draw --sed 1", "", exitCouldNotRun, "", "flag provided but not defined: -sed"},
		{"argument too many", "answer pairs.jsonl", "", exitCouldNotRun, "", `unexpected argument "pairs.jsonl"`},
		{"no pairs to draw", "draw --pairs 0", "", exitCouldNotRun, "", "--pairs must be at least 1, not 0"},
		{"compare without a binary", "compare", "", exitCouldNotRun, "", "--binary is required"},
		{"compare with a binary that is not there", "compare --pairs 1 --binary /nowhere", "", exitCouldNotRun, "", "/nowhere"},
		{"bench without a corpus", "bench", "", exitCouldNotRun, "", "--corpus is required"},
		{"answer says which line is wrong", "answer", "{}\noops\n", exitCouldNotRun, "{\"covers\":true,\"uncovered\":[]}\n", "stdin, line 2"},
		{
			"answer keeps the order and the fields of Covers", "answer",
			`{"owner":null,"requested":[{"verbs":["b","a"],"apiGroups":[""],"resources":["<p>"],"resourceNames":[""],"nonResourceURLs":["/"]}]}`, exitOK,
			`{"covers":false,"uncovered":[{"verbs":["b"],"apiGroups":[""],"resources":["<p>"],"resourceNames":[""]},{"verbs":["a"],"apiGroups":[""],"resources":["<p>"],"resourceNames":[""]},{"verbs":["b"],"nonResourceURLs":["/"]},{"verbs":["a"],"nonResourceURLs":["/"]}]}` + "\n", "",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out, err bytes.Buffer
			code := run(strings.Fields(test.args), streams{strings.NewReader(test.in), &out, &err})
			if code != test.code || !strings.Contains(out.String(), test.out) || !strings.Contains(err.String(), test.err) {
				t.Errorf("code %d\nstdout: %s\nstderr: %s", code, out.String(), err.String())
			}
		})
	}
}

func TestBenchPrintsOneLine(t *testing.T) {
	var out, complaints bytes.Buffer
	if code := run([]string{"bench", "--corpus", corpus(t, rightLine)}, streams{out: &out, err: &complaints}); code != exitOK {
		t.Fatalf("exit code %d: %s", code, complaints.String())
	}
	var result benchResult
	if err := json.Unmarshal(out.Bytes(), &result); err != nil {
		t.Fatal(err)
	}
	if result.Pairs != 1 || result.BestNS <= 0 || result.MedianNS < result.BestNS {
		t.Errorf("unlikely result: %+v", result)
	}
}

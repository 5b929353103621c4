package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
)

var answerCommand = subcommand{
	name:     "answer",
	synopsis: "answer < pairs.jsonl > answers.jsonl",
	help: `For each line {"owner":[rules],"requested":[rules]} on stdin, prints a line
{"covers":bool,"uncovered":[rules]}: the raw result of Covers, in its order.`,
	define: func(*flag.FlagSet) func(streams) error { return answerAll },
}

func answerAll(s streams) error {
	// A reader, not a Scanner: one pair may be longer than any line limit.
	in, out := bufio.NewReader(s.in), bufio.NewWriter(s.out)
	for number := 1; ; number++ {
		line, err := in.ReadBytes('\n')
		atEnd := errors.Is(err, io.EOF)
		if err != nil && !atEnd {
			return fmt.Errorf("reading pairs from stdin: %w", err)
		}
		if atEnd && len(line) == 0 {
			return out.Flush()
		}
		reply, err := answerLine(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			// What was answered so far still belongs to the caller; the error names the line that ended it.
			return errors.Join(fmt.Errorf("stdin, line %d: %w", number, err), out.Flush())
		}
		if _, err := out.Write(reply); err != nil {
			return fmt.Errorf("writing answers: %w", err)
		}
	}
}

func answerLine(line []byte) ([]byte, error) {
	var p pair
	if err := decode(line, &p); err != nil {
		return nil, fmt.Errorf("not a pair of rule lists: %w", err)
	}
	return ask(p).line()
}

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"k8s.io/component-helpers/auth/rbac/validation"
)

var benchCommand = subcommand{
	name:     "bench",
	synopsis: "bench --corpus DIR [--rounds N]",
	help: `Times Covers alone, without any parsing, over all pairs of DIR/covers-pairs.jsonl.gz and prints
one JSON line {"pairs":N,"best_ns":…,"median_ns":…}, each the time of one round over all pairs.`,
	define: func(flags *flag.FlagSet) func(streams) error {
		corpus := flags.String("corpus", "", "directory that holds covers-pairs.jsonl.gz (required)")
		rounds := flags.Int("rounds", 5, "how often to go over all pairs")
		return func(s streams) error { return bench(s, *corpus, *rounds) }
	},
}

// benchResult is what the Rust side prints for its own algorithm too, so that a script can take the ratio.
type benchResult struct {
	Pairs    int   `json:"pairs"`
	BestNS   int64 `json:"best_ns"`
	MedianNS int64 `json:"median_ns"`
}

func bench(s streams, corpus string, rounds int) error {
	if corpus == "" {
		return errors.New("--corpus is required")
	}
	if rounds < 1 {
		return fmt.Errorf("--rounds must be at least 1, not %d", rounds)
	}
	path := filepath.Join(corpus, pairsFile)
	lines, err := readGzipLines(path)
	if err != nil {
		return err
	}
	pairs := make([]storedPair, len(lines))
	for i, line := range lines {
		if err := decode(line, &pairs[i]); err != nil {
			return fmt.Errorf("%s, line %d: %w", path, i+1, err)
		}
	}

	times := make([]time.Duration, rounds)
	for round := range times {
		runtime.GC() // so that no round pays for the rubbish of the one before
		start := time.Now()
		for _, p := range pairs {
			validation.Covers(p.Owner, p.Requested)
		}
		times[round] = time.Since(start)
	}
	slices.Sort(times)
	return json.NewEncoder(s.out).Encode(benchResult{len(pairs), times[0].Nanoseconds(), times[rounds/2].Nanoseconds()})
}

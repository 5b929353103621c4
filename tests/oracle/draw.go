package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"text/tabwriter"
)

var drawCommand = subcommand{
	name:     "draw",
	synopsis: "draw [--seed N] [--pairs N] > pairs.jsonl",
	help: `Draws pairs {"owner":[rules],"requested":[rules]} from a seed, the same for the same seed, with
every odd shape that rules can have. Prints on stderr how many pairs contain each shape and how
many are covered.`,
	define: func(flags *flag.FlagSet) func(streams) error {
		seed := flags.Uint64("seed", 1, "seed of the drawn pairs")
		pairs := flags.Int("pairs", 20000, "how many pairs to draw")
		return func(s streams) error { return draw(s, *seed, *pairs) }
	},
}

// words are what ordinary rules are made of. They are few, so that rules that were drawn apart still meet.
var words = [fieldCount][]string{
	verbs:           {"get", "list", "watch", "create", "update", "delete"},
	apiGroups:       {"", "apps", "batch", "example.com"},
	resources:       {"pods", "pods/log", "pods/log/tail", "deployments", "deployments/scale", "secrets", "widgets", "widgets/scale"},
	resourceNames:   {"a", "b", "web"},
	nonResourceURLs: {"/healthz", "/healthz/ping", "/a", "/a/", "/a/b", "/a/b/c", "/metrics", "/ab"},
}

func draw(s streams, seed uint64, count int) error {
	pairs, err := drawPairs(seed, count)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(s.out)
	for _, p := range pairs {
		out.Write(p.line())
		out.WriteByte('\n')
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("writing pairs: %w", err)
	}
	census, err := countShapes(pairs)
	if err != nil {
		return err
	}
	return census.print(s.err)
}

// drawPairs draws `count` pairs. PCG is fixed by its seed on every platform and Go version.
func drawPairs(seed uint64, count int) ([]drawnPair, error) {
	if count < 1 {
		return nil, fmt.Errorf("--pairs must be at least 1, not %d", count)
	}
	r := rand.New(rand.NewPCG(seed, 0))
	pairs := make([]drawnPair, count)
	for i := range pairs {
		requested := drawSide(r)
		pairs[i] = drawnPair{owner: drawOwner(r, requested), requested: requested}
	}
	return pairs, nil
}

// drawSide draws ordinary rules and sows odd shapes among them.
func drawSide(r *rand.Rand) side {
	var s side
	for range 1 + r.IntN(5) {
		s.rules = append(s.rules, drawRule(r))
	}
	for range 1 + r.IntN(4) {
		pick(r, shapes).sow(r, &s)
	}
	return s
}

func drawRule(r *rand.Rand) drawnRule {
	var rule drawnRule
	rule.set(verbs, drawItems(r, verbs))
	if r.IntN(4) == 0 {
		rule.set(nonResourceURLs, drawItems(r, nonResourceURLs))
		return rule
	}
	rule.set(apiGroups, drawItems(r, apiGroups))
	rule.set(resources, drawItems(r, resources))
	if r.IntN(5) == 0 {
		rule.set(resourceNames, drawItems(r, resourceNames))
	}
	return rule
}

// drawItems draws one to three different words of a field.
func drawItems(r *rand.Rand, f field) []string {
	items := slices.Clone(words[f])
	shuffle(r, items)
	return items[:1+r.IntN(3)]
}

func pick[T any](r *rand.Rand, from []T) T {
	return from[r.IntN(len(from))]
}

func shuffle[T any](r *rand.Rand, items []T) {
	r.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
}

// census is how many pairs hold each shape, on either side, and how many are covered.
type census struct {
	pairs, covered, askNothing int
	owner, requested           []int
}

func countShapes(pairs []drawnPair) (census, error) {
	c := census{pairs: len(pairs), owner: make([]int, len(shapes)), requested: make([]int, len(shapes))}
	for i, drawn := range pairs {
		var p pair
		if err := decode(drawn.line(), &p); err != nil {
			return c, fmt.Errorf("drawn pair %d does not parse: %w", i+1, err)
		}
		if *ask(p).Covers {
			c.covered++
		}
		if *ask(pair{Requested: p.Requested}).Covers {
			c.askNothing++ // even nobody covers it: covered, but no test of anything
		}
		for j, shape := range shapes {
			if shape.seen(drawn.owner) {
				c.owner[j]++
			}
			if shape.seen(drawn.requested) {
				c.requested[j]++
			}
		}
	}
	return c, nil
}

func (c census) percent(count int) float64 {
	return 100 * float64(count) / float64(c.pairs)
}

func (c census) print(to io.Writer) error {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "pairs with\tin owner\t%\tin requested\t%\t")
	for i, shape := range shapes {
		fmt.Fprintf(table, "%s\t%d\t%.1f\t%d\t%.1f\t\n", shape.name, c.owner[i], c.percent(c.owner[i]), c.requested[i], c.percent(c.requested[i]))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(to, "covered: %d of %d pairs (%.1f %%), %d of them because nothing is asked for\n",
		c.covered, c.pairs, c.percent(c.covered), c.askNothing)
	return err
}

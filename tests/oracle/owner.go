package main

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// drawOwner draws the owner for what is requested. Rules drawn apart hardly ever cover each other, so most
// owners are the request itself, rewritten so that it still covers, and more than half of those made smaller.
func drawOwner(r *rand.Rand, requested side) side {
	switch r.IntN(24) {
	case 0, 1:
		return drawSide(r)
	case 2:
		return side{isNull: r.IntN(2) == 0}
	}
	owner := requested.clone()
	for range 1 + r.IntN(3) {
		pick(r, rewrites)(r, &owner)
	}
	if r.IntN(5) < 3 {
		pick(r, reductions)(r, &owner)
	}
	if r.IntN(3) == 0 {
		extra := drawSide(r)
		owner = side{rules: append(owner.rules, extra.rules...)}
		shuffle(r, owner.rules)
	}
	return owner
}

// rewrites say the same in other words, or more.
var rewrites = []func(*rand.Rand, *side){shuffleAll, split, merge, inRule(widen)}

// reductions take something away; each leaves an owner that looks nearly sufficient.
var reductions = []func(*rand.Rand, *side){dropRule, inRule(dropItem), inRule(changeItem), inRule(restrictToNames), tear}

func shuffleAll(r *rand.Rand, s *side) {
	shuffle(r, s.rules)
	for _, rule := range s.rules {
		for _, l := range rule {
			shuffle(r, l.items)
		}
	}
}

// split makes a rule for every item of one field.
func split(r *rand.Rand, s *side) {
	f := field(r.IntN(int(fieldCount)))
	var parts []drawnRule
	for _, rule := range s.rules {
		if len(rule.values(f)) < 2 {
			parts = append(parts, rule)
			continue
		}
		for _, value := range rule.values(f) {
			part := rule
			part.set(f, []string{value})
			parts = append(parts, part)
		}
	}
	// The parts still share the lists they were not split by; a later change to one must not reach the others.
	*s = side{rules: parts, isNull: s.isNull}.clone()
}

// merge makes one rule of two, which grants all of both and what lies between them.
func merge(r *rand.Rand, s *side) {
	if len(s.rules) < 2 {
		return
	}
	shuffle(r, s.rules)
	into, from := &s.rules[0], s.rules[len(s.rules)-1]
	unnamed := len(into.values(resourceNames)) == 0 || len(from.values(resourceNames)) == 0
	for f := range fieldCount {
		for _, value := range from.values(f) {
			if !slices.Contains(into.values(f), value) {
				into.add(f, value)
			}
		}
	}
	if unnamed {
		into[resourceNames] = list{}
	}
	s.rules = s.rules[:len(s.rules)-1]
}

// widen puts a wildcard, or a wildcard's prefix, in place of what it stands for.
func widen(r *rand.Rand, rule *drawnRule) {
	f := field(r.IntN(int(fieldCount)))
	values := rule.values(f)
	if len(values) == 0 {
		return
	}
	at := r.IntN(len(values))
	switch f {
	case resourceNames:
		rule[f] = list{}
	case nonResourceURLs:
		values[at] = values[at][:r.IntN(len(values[at])+1)] + pick(r, []string{"*", "*", "**"})
	case resources:
		if _, sub, found := strings.Cut(values[at], "/"); found && r.IntN(2) == 0 {
			values[at] = "*/" + sub
			return
		}
		values[at] = "*"
	default:
		values[at] = "*"
	}
}

func dropRule(r *rand.Rand, s *side) {
	if len(s.rules) > 0 {
		at := r.IntN(len(s.rules))
		s.rules = slices.Delete(s.rules, at, at+1)
	}
}

func dropItem(r *rand.Rand, rule *drawnRule) {
	f := field(r.IntN(int(fieldCount)))
	if values := rule.values(f); len(values) > 0 {
		at := r.IntN(len(values))
		rule.set(f, slices.Delete(values, at, at+1))
	}
}

// changeItem puts something similar in an item's place: another word, other letters, one slash or star less.
// Resources get more than their share: they have most ways to be nearly the same.
func changeItem(r *rand.Rand, rule *drawnRule) {
	f := pick(r, []field{verbs, apiGroups, resources, resources, resources, resourceNames, nonResourceURLs})
	values := rule.values(f)
	if len(values) == 0 {
		return
	}
	at := r.IntN(len(values))
	values[at] = pick(r, []string{
		pick(r, words[f]),
		strings.ToUpper(values[at]),
		strings.TrimSuffix(values[at], "*"),
		values[at] + "/*",
		strings.Split(values[at], "/")[0],
		"*/" + values[at][strings.LastIndex(values[at], "/")+1:],
	})
}

func restrictToNames(r *rand.Rand, rule *drawnRule) {
	rule.set(resourceNames, []string{pick(r, []string{"a", "b", "*", ""})})
}

// tear makes two rules of one so that every verb and every object is still named, but no longer each with each.
func tear(r *rand.Rand, s *side) {
	for i, rule := range s.rules {
		f := pick(r, []field{apiGroups, resources, nonResourceURLs})
		if len(rule.values(verbs)) < 2 || len(rule.values(f)) < 2 {
			continue
		}
		other := rule
		for _, halved := range []field{verbs, f} {
			values := slices.Clone(rule.values(halved))
			s.rules[i].set(halved, values[:1:1])
			other.set(halved, values[1:])
		}
		*s = side{rules: append(s.rules, other)}.clone()
		return
	}
}

package main

import (
	"math/rand/v2"
	"reflect"
	"slices"
)

// shape is something odd that rules may contain. The table both sows shapes and counts them, so a shape
// cannot be drawn without being reported, nor reported without being drawn.
type shape struct {
	name string
	sow  func(*rand.Rand, *side)
	seen func(side) bool
}

var shapes = []shape{
	item("verb *", verbs, "*"),
	item("group *", apiGroups, "*"),
	item("resource *", resources, "*"),
	item("resourceName *", resourceNames, "*"),
	item("URL *", nonResourceURLs, "*"),

	items("resource */sub", resources, []string{"*/scale", "*/log", "*/status"}),
	items("resource x/*", resources, []string{"pods/*", "deployments/*"}),
	items("resource a/b/c", resources, []string{"pods/log/tail", "deployments/scale/x", "*/log/tail", "*/scale/x", "a/b/c"}),
	item("resource */*", resources, "*/*"),
	item("resource */*/*", resources, "*/*/*"),
	items("resource /x or x/", resources, []string{"/log", "pods/", "*/", "/"}),

	item("verb empty string", verbs, ""),
	item("resource empty string", resources, ""),
	item("resourceName empty string", resourceNames, ""),
	item("URL empty string", nonResourceURLs, ""),

	items("URL prefix*", nonResourceURLs, []string{"/healthz*", "/healthz/*", "/a*", "/*"}),
	items("URL ending in **", nonResourceURLs, []string{"/a/**", "/healthz**", "**", "/a/*/**"}),
	items("URL * not at the end", nonResourceURLs, []string{"/a/*/b", "*/healthz", "/*a"}),
	item("URL /", nonResourceURLs, "/"),

	written("verbs missing", missing, verbs),
	written("apiGroups or resources missing", missing, apiGroups, resources),
	written("verbs null", null, verbs),
	written("apiGroups or resources null", null, apiGroups, resources),
	written("resourceNames null", null, resourceNames),
	written("nonResourceURLs null", null, nonResourceURLs),
	written("verbs []", present, verbs),
	written("apiGroups or resources []", present, apiGroups, resources),
	written("resourceNames []", present, resourceNames),
	written("nonResourceURLs []", present, nonResourceURLs),
	{"key in the wrong case", inRule(sowWrongCase), anyRule(hasWrongCase)},

	{"duplicate entry", inRule(sowDuplicateEntry), anyRule(hasDuplicateEntry)},
	{"duplicate rule", sowDuplicateRule, hasDuplicateRule},
	{"resourceNames", inRule(sowName), anyRule(func(r drawnRule) bool { return len(r.values(resourceNames)) > 0 })},
	{"resources and URLs", inRule(sowMixed), anyRule(isMixed)},
	{"resources, names and URLs", inRule(sowMixedNamed), anyRule(func(r drawnRule) bool { return isMixed(r) && len(r.values(resourceNames)) > 0 })},
	{"rule {}", inRule(func(_ *rand.Rand, r *drawnRule) { *r = drawnRule{} }), anyRule(func(r drawnRule) bool { return r.json() == "{}" })},
	{"rules []", sowNoRules(side{}), func(s side) bool { return !s.isNull && len(s.rules) == 0 }},
	{"rules null", sowNoRules(side{isNull: true}), func(s side) bool { return s.isNull }},

	items("verb in other letters", verbs, []string{"GET", "get*", "**"}),
	items("group in other letters", apiGroups, []string{"Apps", "*.k8s.io", "apps/v1", "**"}),
	items("characters to escape", resources, []string{"wïdgets", "<a>&b", `a"b\c`, "tab\there", "line\u2028end"}),
}

func item(name string, f field, value string) shape {
	return items(name, f, []string{value})
}

// items is the shape of a rule that has one of these strings in a field.
func items(name string, f field, choice []string) shape {
	return shape{
		name: name,
		sow: inRule(func(r *rand.Rand, rule *drawnRule) {
			value := pick(r, choice)
			if values := rule.values(f); len(values) > 0 && r.IntN(2) == 0 {
				values[r.IntN(len(values))] = value
				return
			}
			rule.add(f, value)
		}),
		seen: anyRule(func(rule drawnRule) bool {
			return slices.ContainsFunc(rule.values(f), func(v string) bool { return slices.Contains(choice, v) })
		}),
	}
}

// written is the shape of a rule one of whose fields holds nothing, in that form. An absent list is only odd
// where one is needed: so `missing` asks for the rule's other fields to be there.
func written(name string, how form, fields ...field) shape {
	return shape{
		name: name,
		sow:  inRule(func(r *rand.Rand, rule *drawnRule) { rule[pick(r, fields)] = list{form: how} }),
		seen: anyRule(func(rule drawnRule) bool {
			filled := func(f field) bool { return len(rule.values(f)) > 0 }
			needed := filled(apiGroups) || filled(resources) || (slices.Contains(fields, verbs) && filled(nonResourceURLs))
			return slices.ContainsFunc(fields, func(f field) bool {
				return rule[f].form == how && len(rule[f].items) == 0 && (how != missing || needed)
			})
		}),
	}
}

// inRule sows in a random rule of a side; a side without rules stays as it is.
func inRule(sow func(*rand.Rand, *drawnRule)) func(*rand.Rand, *side) {
	return func(r *rand.Rand, s *side) {
		if len(s.rules) > 0 {
			sow(r, &s.rules[r.IntN(len(s.rules))])
		}
	}
}

func anyRule(seen func(drawnRule) bool) func(side) bool {
	return func(s side) bool { return slices.ContainsFunc(s.rules, seen) }
}

// sowNoRules leaves it at every other attempt: what asks for nothing is covered, and tests little else.
func sowNoRules(none side) func(*rand.Rand, *side) {
	return func(r *rand.Rand, s *side) {
		if r.IntN(2) == 0 {
			*s = none
		}
	}
}

func sowWrongCase(r *rand.Rand, rule *drawnRule) {
	// `verbs` and `resources` are all lower case: they have no wrong case that ToLower could make.
	f := pick(r, []field{apiGroups, resourceNames, nonResourceURLs})
	rule[f] = list{wrongCase, drawItems(r, f)}
}

func hasWrongCase(rule drawnRule) bool {
	return slices.ContainsFunc(rule[:], func(l list) bool { return l.form == wrongCase })
}

func sowDuplicateEntry(r *rand.Rand, rule *drawnRule) {
	f := field(r.IntN(int(fieldCount)))
	if values := rule.values(f); len(values) > 0 {
		rule.add(f, pick(r, values))
	} else {
		rule.set(f, slices.Repeat(drawItems(r, f)[:1], 2))
	}
}

func hasDuplicateEntry(rule drawnRule) bool {
	return slices.ContainsFunc(rule[:], func(l list) bool {
		sorted := slices.Sorted(slices.Values(l.items))
		return l.form == present && len(slices.Compact(sorted)) < len(l.items)
	})
}

func sowDuplicateRule(r *rand.Rand, s *side) {
	if len(s.rules) > 0 {
		again := s.clone().rules[r.IntN(len(s.rules))]
		s.rules = slices.Insert(s.rules, r.IntN(len(s.rules)+1), again)
	}
}

func hasDuplicateRule(s side) bool {
	for i, rule := range s.rules {
		if slices.ContainsFunc(s.rules[i+1:], func(other drawnRule) bool { return reflect.DeepEqual(rule, other) }) {
			return true
		}
	}
	return false
}

func sowName(r *rand.Rand, rule *drawnRule) {
	rule.add(resourceNames, pick(r, words[resourceNames]))
}

func sowMixed(r *rand.Rand, rule *drawnRule) {
	for _, f := range []field{apiGroups, resources, nonResourceURLs} {
		if len(rule.values(f)) == 0 {
			rule.set(f, drawItems(r, f))
		}
	}
}

func sowMixedNamed(r *rand.Rand, rule *drawnRule) {
	sowMixed(r, rule)
	sowName(r, rule)
}

func isMixed(rule drawnRule) bool {
	return len(rule.values(resources)) > 0 && len(rule.values(nonResourceURLs)) > 0
}

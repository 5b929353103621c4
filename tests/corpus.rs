//! Real operators: every ClusterServiceVersion of `../shared/corpus`, and every recorded upgrade, through the wasm.
//!
//! What each asks for is worked out from [what the policy judges](../README.md#what-is-judged) in `test_support::operators`, without the code under test;
//! coverage in `test_support::rbac`, whose every answer is then put before Kubernetes' own Go code.

// A test that cannot go on fails.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use operator_bounds::engine::Limits;
use operator_bounds::policy::Policy;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use test_support::operators::{NAMESPACE, SHAPES, Shape, asked, create, csvs, draw, is_serving, objects};
use test_support::rbac::{Atom, Rule, Scope, Scoped, excess, holding, listed, same, uncovered};
use test_support::{Judged, Oracle, cluster, items, judge, lines, raw, say, shared, text};

/// A question to the oracle, and the answer that this test relied on.
type Questions = HashMap<String, Vec<Atom>>;

/// What came out; everything wrong is collected, so that one run tells all.
#[derive(Default)]
struct Tally {
    verdicts: usize,
    admitted: usize,
    refused: usize,
    most_lookups: usize,
    without_an_atom_to_take: usize,
    wrong: Vec<String>,
    questions: Questions,
}

impl Tally {
    fn ask(&mut self, owner: &[Rule], requested: &[Rule], expected: Vec<Atom>) {
        let json = |rules: &[Rule]| rules.iter().map(Rule::json).collect::<Vec<_>>();
        self.questions.insert(json!({"owner": json(owner), "requested": json(requested)}).to_string(), expected);
    }

    fn add(&mut self, other: Tally) {
        self.verdicts += other.verdicts;
        self.admitted += other.admitted;
        self.refused += other.refused;
        self.most_lookups = self.most_lookups.max(other.most_lookups);
        self.without_an_atom_to_take += other.without_an_atom_to_take;
        self.wrong.extend(other.wrong);
        self.questions.extend(other.questions);
    }
}

/// One operator in one shape of install.
struct Case<'c> {
    policy: &'c Policy,
    name: &'c str,
    request: &'c RawValue,
    serving: bool,
    shape: Shape,
    asked: Scoped,
}

impl Case<'_> {
    /// The verdict under an account that holds this, with the number of look-ups checked.
    fn judge(&self, grant: &Scoped, extra: &[Value], tally: &mut Tally) -> Judged {
        let mut objects = objects(grant, self.shape, self.name);
        objects.extend_from_slice(extra);
        let judged = judge(self.policy, self.request, &raw(&json!({})), &cluster(&objects));
        tally.verdicts += 1;
        *(if judged.response.accepted { &mut tally.admitted } else { &mut tally.refused }) += 1;
        let made = judged.exchanges.len();
        let limit = 6 + grant.len() + if self.serving { 2 } else { 0 };
        tally.most_lookups = tally.most_lookups.max(made);
        if made > limit {
            tally.wrong.push(format!("{self}: {made} look-ups, {limit} are the limit"));
        }
        if !judged.response.accepted && judged.response.code != Some(403) {
            tally.wrong.push(format!("{self}: refused with {:?}: {}", judged.response.code, judged.message()));
        }
        judged
    }

    /// Holds a verdict to what is missing. A list that is too long for a message is granted, and the rest asked for
    /// again, as a person would do; together the lists are the whole excess and nothing else.
    fn check(&self, what: &str, grant: &Scoped, tally: &mut Tally) {
        let expected = excess(grant, &self.asked);
        for (scope, rules) in &self.asked {
            let missing = expected.get(scope).cloned().unwrap_or_default();
            tally.ask(&holding(grant, scope), rules, missing);
        }
        let mut said = Scoped::new();
        let mut held = grant.clone();
        let mut rounds = 0;
        let mut several = false;
        loop {
            let judged = self.judge(&held, &[], tally);
            if judged.response.accepted {
                break;
            }
            let (list, left_out) = listed(judged.message());
            rounds += 1;
            several |= left_out > 0;
            if list.is_empty() || rounds > 100 {
                tally.wrong.push(format!("{self}, {what}: refused without an excess: {}", judged.message()));
                return;
            }
            for (scope, rules) in list {
                said.entry(scope.clone()).or_default().extend(rules.clone());
                held.entry(scope).or_default().extend(rules);
            }
            if left_out == 0 {
                break;
            }
        }
        let rules = |scope: &Scope| expected.get(scope).into_iter().flatten().map(Atom::rule).collect::<Vec<_>>();
        // Nothing is said that is not missing, and everything that is missing is said. (What is granted in the cluster
        // after the first of several lists is no longer missing in a namespace, and so not said there again.)
        let invented = said.iter().any(|(scope, said)| !uncovered(&rules(scope), said).is_empty());
        let unsaid = expected.keys().any(|scope| {
            if several {
                !uncovered(&holding(&said, scope), &rules(scope)).is_empty()
            } else {
                !same(said.get(scope).map_or(&[], Vec::as_slice), &rules(scope))
            }
        });
        if invented || unsaid {
            tally.wrong.push(format!("{self}, {what}: the excess is {expected:?}, said was {said:?}"));
        }
    }

    /// A grant that lacks one atom, and that atom. None where every atom is covered by something else too.
    fn one_less(&self) -> Option<(Scoped, Scope, Atom)> {
        let all: Vec<(&Scope, Atom)> = self
            .asked
            .iter()
            .flat_map(|(scope, rules)| rules.iter().flat_map(Rule::atoms).map(move |a| (scope, a)))
            .collect();
        let start = draw(self.name, self.shape as usize);
        (0..all.len()).map(|step| &all[(start + step) % all.len()]).find_map(|(scope, atom)| {
            let mut grant = self.asked.clone();
            let rules = grant.remove(*scope)?;
            // Only the rules that have this very atom are split; a wildcard that covers it stays, and so rules it out.
            let split = |rule: Rule| if rule.atoms().contains(atom) { rule.without(atom) } else { vec![rule] };
            grant.insert((*scope).clone(), rules.into_iter().flat_map(split).collect());
            if holding(&grant, scope).iter().any(|rule| rule.covers(atom)) {
                return None;
            }
            Some((grant, (*scope).clone(), atom.clone()))
        })
    }

    fn run(&self, tally: &mut Tally) {
        let enough = self.judge(&self.asked, &[], tally);
        if !enough.response.accepted {
            tally.wrong.push(format!("{self}, exactly enough: {}", enough.message()));
        }
        for (scope, rules) in &self.asked {
            tally.ask(&holding(&self.asked, scope), rules, Vec::new());
        }
        match self.one_less() {
            Some((grant, scope, atom)) => {
                let missing = excess(&grant, &self.asked);
                // The atom may be asked for several times; whatever else is missing would be a mistake of this test.
                assert!(
                    missing.keys().eq([&scope]) && missing[&scope].iter().all(|other| *other == atom),
                    "{self}: {missing:?}"
                );
                self.check(&format!("without {atom:?}"), &grant, tally);
            }
            None => tally.without_an_atom_to_take += 1,
        }
        self.check("nothing", &Scoped::new(), tally);
        let half = |rules: &Vec<Rule>| {
            let kept = rules.iter().enumerate().filter(|(number, _)| draw(self.name, 1000 + number).is_multiple_of(2));
            kept.map(|(_, rule)| rule.clone()).collect::<Vec<_>>()
        };
        let half = self.asked.iter().map(|(scope, rules)| (scope.clone(), half(rules))).collect();
        self.check("half of the rules", &half, tally);
    }
}

impl std::fmt::Display for Case<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({:?})", self.name, self.shape)
    }
}

/// Works through a list on both cores.
fn in_parallel<T: Sync>(list: &[T], work: impl Fn(&T, &mut Tally) + Sync) -> Tally {
    let next = AtomicUsize::new(0);
    let total = Mutex::new(Tally::default());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut tally = Tally::default();
                while let Some(item) = list.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(item, &mut tally);
                }
                total.lock().unwrap().add(tally);
            });
        }
    });
    total.into_inner().unwrap()
}

/// Has every answer that this test relied on confirmed by Kubernetes' own code. Returns how many there were.
fn confirm(questions: &Questions, name: &str, wrong: &mut Vec<String>) -> Option<usize> {
    let oracle = Oracle::build()?;
    let directory = tempfile::TempDir::new().unwrap();
    let [asked, answered] = ["questions", "answers"].map(|file| directory.path().join(format!("{name}-{file}.jsonl")));
    let questions: Vec<(&String, &Vec<Atom>)> = questions.iter().collect();
    let mut file = std::io::BufWriter::new(File::create(&asked).unwrap());
    for (question, _) in &questions {
        writeln!(file, "{question}").unwrap();
    }
    file.into_inner().unwrap();
    let status = oracle
        .command()
        .arg("answer")
        .stdin(File::open(&asked).unwrap())
        .stdout(File::create(&answered).unwrap())
        .status()
        .unwrap();
    assert!(status.success(), "the oracle failed: {status}");
    let answers = BufReader::new(File::open(&answered).unwrap()).lines().map(|line| line.unwrap());
    let mut confirmed = 0;
    for ((question, expected), answer) in questions.iter().zip(answers) {
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let theirs: Vec<Rule> = items(&answer, "/uncovered").iter().map(Rule::read).collect();
        let ours: Vec<Rule> = expected.iter().map(Atom::rule).collect();
        if ours != theirs || answer["covers"] != json!(ours.is_empty()) {
            wrong.push(format!("the oracle says otherwise: {question}: {answer}"));
        }
        confirmed += 1;
    }
    assert_eq!(confirmed, questions.len(), "the oracle did not answer everything");
    Some(confirmed)
}

fn report(what: &str, tally: &mut Tally, start: Instant) {
    let mut wrong = std::mem::take(&mut tally.wrong);
    let confirmed = confirm(&tally.questions, what, &mut wrong);
    let confirmed =
        confirmed.map_or("NOT asked".to_owned(), |count| format!("{count} answers confirmed by the oracle"));
    say(&format!(
        "{what}: {} verdicts ({} admitted, {} refused), {confirmed}, at most {} look-ups, {} disagreements, {:.0?}",
        tally.verdicts,
        tally.admitted,
        tally.refused,
        tally.most_lookups,
        wrong.len(),
        start.elapsed()
    ));
    let shown: Vec<String> = wrong.iter().map(|line| line.chars().take(2000).collect()).collect();
    assert!(wrong.is_empty(), "{} disagreements:\n{}", wrong.len(), shown.join("\n"));
}

fn embedded() -> Policy {
    Policy::embedded(Limits { seconds: None, ..Limits::default() }).unwrap()
}

#[test]
fn every_operator_is_admitted_with_exactly_enough_and_refused_with_exactly_what_is_missing() {
    let Some(corpus) = shared("corpus", "OPERATOR_BOUNDS_CORPUS") else { return };
    let start = Instant::now();
    let policy = embedded();
    let csvs = csvs(&corpus);
    let mut tally = in_parallel(&csvs, |csv, tally| {
        let name = text(csv, "/metadata/name");
        let request = create(csv);
        for shape in SHAPES {
            let asked = asked(csv, shape);
            Case { policy: &policy, name, request: &request, serving: is_serving(csv), shape, asked }.run(tally);
        }
    });
    assert!(csvs.len() >= 400, "only {} ClusterServiceVersions in the corpus", csvs.len());
    say(&format!(
        "corpus: {} ClusterServiceVersions in {} shapes; {} cases ask for nothing that could be taken away alone",
        csvs.len(),
        SHAPES.len(),
        tally.without_an_atom_to_take
    ));
    report("corpus", &mut tally, start);
}

#[derive(Deserialize)]
struct Step {
    name: String,
    from: String,
    to: String,
    /// Whether the new version asks for something that the old one did not hold: in `clusterPermissions`, which only
    /// the old `clusterPermissions` cover; or in `permissions`, which both cover. This is what an account meets that
    /// holds exactly the old version's rights. (`widensCluster` and `widensNamespace` are its two halves,
    /// `widensPerSA` looks at each of the operator's accounts alone, which no boundary does.)
    widens: bool,
}

#[test]
fn an_upgrade_is_refused_exactly_when_it_widens() {
    let Some(corpus) = shared("corpus", "OPERATOR_BOUNDS_CORPUS") else { return };
    let start = Instant::now();
    let policy = embedded();
    let operators: Vec<Value> =
        lines(&corpus.join("upgrades.jsonl.gz")).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let versions: HashMap<(&str, &str), &Value> = operators
        .iter()
        .flat_map(|operator| items(operator, "/versions").iter().map(move |version| (text(operator, "/name"), version)))
        .map(|(name, version)| ((name, text(version, "/version")), version))
        .collect();
    let steps: Vec<Step> = lines(&corpus.join("upgrades-verdicts.jsonl.gz"))
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let widening = steps.iter().filter(|step| step.widens).count();
    let mut tally = in_parallel(&steps, |step, tally| {
        let [old, new] = [&step.from, &step.to].map(|version| versions[&(step.name.as_str(), version.as_str())]);
        upgrade(&policy, step, &as_csv(old, None), &as_csv(new, Some(old)), tally);
    });
    say(&format!("upgrades: {} steps, of which {widening} widen", steps.len()));
    report("upgrades", &mut tally, start);
}

fn upgrade(policy: &Policy, step: &Step, old: &Value, new: &Value, tally: &mut Tally) {
    let request = create(new);
    let mut replaced = old.clone();
    replaced["metadata"]["namespace"] = json!(NAMESPACE);
    let case = Case {
        policy,
        name: text(new, "/metadata/name"),
        request: &request,
        serving: false,
        shape: Shape::Own,
        asked: asked(new, Shape::Own),
    };
    let grant = asked(old, Shape::Own);
    let judged = case.judge(&grant, &[replaced], tally);
    if judged.response.accepted == step.widens {
        tally.wrong.push(format!(
            "{} {} to {}, widens: {}: {}",
            step.name,
            step.from,
            step.to,
            step.widens,
            judged.message()
        ));
    }
    for (scope, rules) in &case.asked {
        let owner = holding(&grant, scope);
        tally.ask(&owner, rules, uncovered(&owner, rules));
    }
}

/// A version of an operator, as it is in the list of upgrades, as the ClusterServiceVersion it came from.
fn as_csv(version: &Value, replaced: Option<&Value>) -> Value {
    let deployment = |deployment: &Value| {
        json!({"name": deployment["name"],
            "spec": {"template": {"spec": {"serviceAccountName": deployment["serviceAccountName"]}}}})
    };
    let deployments: Vec<Value> = items(version, "/deployments").iter().map(deployment).collect();
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
    "metadata": {"name": version["csv"]},
    "spec": {
        "replaces": replaced.map(|replaced| &replaced["csv"]),
        "install": {"strategy": "deployment", "spec": {
            "permissions": version["permissions"],
            "clusterPermissions": version["clusterPermissions"],
            "deployments": deployments,
        }},
    }})
}

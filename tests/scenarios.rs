//! Runs every directory below `tests/scenarios` natively, as wasm and by kwctl, and compares the answers. The format is
//! described in `tests/scenarios/README.md`.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use libtest_mimic::{Arguments, Failed, Trial};
use operator_bounds::engine::{Engine, Limits};
use operator_bounds::host::{Exchange, Host};
use operator_bounds::policy::{MODULE, Policy};
use operator_bounds::replay;
use serde_json::Value;
use test_support::case::{Case, find};
use test_support::expected::{Expected, expect_words, warnings_of};
use test_support::kwctl::Kwctl;
use test_support::replayed;

const MIN_SCENARIOS: usize = 80;
/// A debug build on a busy machine: the policy server's two seconds would measure the neighbours.
const LIMITS: Limits = Limits { memory: 256 * 1024 * 1024, seconds: Some(20) };
const MAX_MESSAGE_BYTES: usize = 8 * 1024;
const MAX_WARNING_CHARACTERS: usize = 256;

static NATIVE: LazyLock<Policy> = LazyLock::new(|| Policy::native().expect("the embedded module has metadata"));
static WASM: LazyLock<Engine> = LazyLock::new(|| Engine::new(MODULE, LIMITS).expect("the embedded module compiles"));
static KWCTL: LazyLock<Option<Kwctl>> = LazyLock::new(|| Kwctl::find(MODULE));

static RAN_NATIVELY: AtomicUsize = AtomicUsize::new(0);
static RAN_AS_WASM: AtomicUsize = AtomicUsize::new(0);
static RAN_REPLAYED: AtomicUsize = AtomicUsize::new(0);
static RAN_BY_KWCTL: AtomicUsize = AtomicUsize::new(0);

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut directories = Vec::new();
    find(&root, &mut directories);
    let count = directories.len();
    let mut trials: Vec<Trial> = directories
        .into_iter()
        .map(|directory| {
            let name = directory.strip_prefix(&root).unwrap_or(&directory).display().to_string();
            Trial::test(name, move || run(&directory).map_err(Failed::from))
        })
        .collect();
    trials.push(Trial::test(format!("at least {MIN_SCENARIOS} scenarios"), move || {
        if count < MIN_SCENARIOS { Err(format!("there are only {count}").into()) } else { Ok(()) }
    }));
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !arguments.list {
        report();
    }
    conclusion.exit_code()
}

fn report() {
    let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
    println!(
        "scenarios: {} ran natively, {} as wasm, {} sessions replayed",
        count(&RAN_NATIVELY),
        count(&RAN_AS_WASM),
        count(&RAN_REPLAYED)
    );
    match &*KWCTL {
        Some(kwctl) => println!("scenarios: {} sessions replayed by {kwctl}", count(&RAN_BY_KWCTL)),
        None => test_parts::not_run("there is no kwctl, and no scenario was replayed by it"),
    }
}

/// An answer, and the look-ups that it took.
struct Answer {
    response: Value,
    exchanges: Vec<Exchange>,
}

fn run(directory: &Path) -> Result<(), String> {
    let case = Case::load(directory)?;
    check_settings(&case)?;
    let native = run_natively(&case)?;
    let wasm = run_as_wasm(&case)?;
    check(&case.expected, &native).map_err(|problems| explained(&problems, &native))?;
    if wasm.response != native.response {
        return Err(format!("natively: {:#}\n\nas wasm: {:#}", native.response, wasm.response));
    }
    if wasm.exchanges != native.exchanges {
        return Err(format!("look-ups natively:\n{}\nas wasm:\n{}", said(&native.exchanges), said(&wasm.exchanges)));
    }
    run_replayed(&case, &wasm)?;
    run_by_kwctl(&case, &wasm)
}

/// `validate_settings` agrees with what the case says of its settings, natively and as wasm.
fn check_settings(case: &Case) -> Result<(), String> {
    let Some(settings) = &case.settings else { return Ok(()) };
    let payload = settings.to_string();
    let native = to_value(&bounds::validate_settings(payload.as_bytes()))?;
    let host = Arc::new(NATIVE.host(&Arc::default()));
    let wasm = WASM.call(&host, "validate_settings", payload.as_bytes()).map_err(|error| error.to_string())?;
    let wasm: Value = serde_json::from_slice(&wasm).map_err(|error| format!("validate_settings: {error}"))?;
    if native != wasm {
        return Err(format!("validate_settings natively: {native}\nas wasm: {wasm}"));
    }
    match (&case.expected.invalid_settings, native["valid"].as_bool()) {
        (None, Some(true)) => Ok(()),
        (Some(words), Some(false)) => {
            let message = native["message"].as_str().unwrap_or_default();
            let mut problems = Vec::new();
            expect_words("the answer of validate_settings", message, words, &mut problems);
            if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
        }
        (None, _) => Err(format!("settings.yaml is not valid: {native}")),
        (Some(_), _) => Err("invalidSettings: validate_settings takes them for valid".to_owned()),
    }
}

fn host(case: &Case) -> Host {
    case.expected
        .host_errors
        .iter()
        .fold(NATIVE.host(&case.manifests), |host, (kind, message)| host.fail_on(kind, message))
}

fn run_natively(case: &Case) -> Result<Answer, String> {
    let host = host(case);
    let response = to_value(&bounds::validate(&case.payload, &host))?;
    RAN_NATIVELY.fetch_add(1, Ordering::Relaxed);
    Ok(Answer { response, exchanges: host.exchanges() })
}

fn run_as_wasm(case: &Case) -> Result<Answer, String> {
    let host = Arc::new(host(case));
    let answer = WASM.call(&host, "validate", &case.payload).map_err(|error| format!("as wasm: {error}"))?;
    let response = serde_json::from_slice(&answer).map_err(|error| format!("as wasm: {error}"))?;
    RAN_AS_WASM.fetch_add(1, Ordering::Relaxed);
    Ok(Answer { response, exchanges: host.exchanges() })
}

/// The recorded session, written as a file for kwctl and read back, leads to the same answer.
fn run_replayed(case: &Case, answer: &Answer) -> Result<(), String> {
    let session = replay::session(&answer.exchanges).map_err(|error| format!("session: {error}"))?;
    let response = replayed::validate(&WASM, &case.payload, &session)?;
    if response != answer.response {
        return Err(format!("as wasm: {:#}\n\nreplayed: {response:#}", answer.response));
    }
    RAN_REPLAYED.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

fn run_by_kwctl(case: &Case, answer: &Answer) -> Result<(), String> {
    // kwctl takes nothing that is no admission request, and refuses bad settings before the policy sees a request.
    let (Some(kwctl), Some(request), None) = (&*KWCTL, &case.request, &case.expected.invalid_settings) else {
        return Ok(());
    };
    let session = replay::session(&answer.exchanges).map_err(|error| format!("session: {error}"))?;
    kwctl.check(request, case.settings.as_ref(), &session, &answer.response)?;
    RAN_BY_KWCTL.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

fn to_value(answer: &impl serde::Serialize) -> Result<Value, String> {
    serde_json::to_value(answer).map_err(|error| error.to_string())
}

/// The answer is what the case expects, and what every answer must be.
fn check(expected: &Expected, answer: &Answer) -> Result<(), Vec<String>> {
    let mut problems = Vec::new();
    check_shape(answer, &mut problems);
    problems.extend(expected.problems(&answer.response));
    match expected.lookups {
        Some(count) if count != answer.exchanges.len() => {
            problems.push(format!("lookups: expected {count}, found {}", answer.exchanges.len()));
        }
        _ => {}
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// What every answer must be, whatever it says.
fn check_shape(answer: &Answer, problems: &mut Vec<String>) {
    let response = &answer.response;
    let annotations = &response["audit_annotations"];
    for key in ["verdict", "reason"] {
        if annotations[key].as_str().is_none_or(str::is_empty) {
            problems.push(format!("auditAnnotations.{key} is missing"));
        }
    }
    if let Some(count) = annotations["lookups"].as_str()
        && count != answer.exchanges.len().to_string()
    {
        problems.push(format!("auditAnnotations.lookups says {count}, there were {}", answer.exchanges.len()));
    }
    let warnings = warnings_of(response);
    let verdict = match (response["accepted"].as_bool(), warnings.is_empty()) {
        (Some(false), _) => "refused",
        (_, true) => "admitted",
        (_, false) => "warned",
    };
    if annotations["verdict"] != verdict {
        problems.push(format!("auditAnnotations.verdict: expected {verdict}, found {}", annotations["verdict"]));
    }
    if response["accepted"] == false {
        if response["code"].as_u64().is_none() {
            problems.push("a refusal without a code".to_owned());
        }
        let size = response["message"].as_str().unwrap_or_default().len();
        if size == 0 || size > MAX_MESSAGE_BYTES {
            problems.push(format!("a refusal with a message of {size} bytes"));
        }
    }
    for warning in warnings {
        if warning.is_empty() || warning.contains(char::is_control) {
            problems.push(format!("a warning that is empty or breaks the line: {warning:?}"));
        }
        if warning.chars().count() > MAX_WARNING_CHARACTERS {
            problems.push(format!("a warning of {} characters: {warning}", warning.chars().count()));
        }
    }
}

fn explained(problems: &[String], answer: &Answer) -> String {
    let Answer { response, exchanges } = answer;
    let message = response["message"].as_str().unwrap_or("(none)");
    let warnings = warnings_of(response).join("\n");
    format!(
        "{}\n--- accepted: {} code: {} annotations: {}\n--- message: {message}\n--- warnings:\n{warnings}\n--- look-ups:\n{}",
        problems.join("\n"),
        response["accepted"],
        response["code"],
        response["audit_annotations"],
        said(exchanges)
    )
}

fn said(exchanges: &[Exchange]) -> String {
    exchanges.iter().map(|exchange| format!("{:?}\n", exchange.request)).collect()
}

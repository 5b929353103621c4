//! What can be told about a release without making one: the versions agree, and the workflows run what they say.
//!
//! With `RELEASE_TAG=v0.1.0` in the environment, also that this version may be released under that tag.

#![allow(clippy::panic, clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn yaml(path: &str) -> Value {
    serde_saphyr::from_str(&text(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The version of the workspace, which every package inherits.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The workflows, and the actions that this repository offers itself.
fn workflows() -> Vec<String> {
    let directory = root().join(".github/workflows");
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut paths: Vec<_> = files.map(|name| format!(".github/workflows/{name}")).collect();
    paths.extend(["action.yml".to_owned()].into_iter().filter(|path| root().join(path).exists()));
    paths.sort();
    paths
}

/// Every value of that key, however deep.
fn values<'a>(key: &str, within: &'a Value, found: &mut Vec<&'a Value>) {
    match within {
        Value::Object(map) => {
            found.extend(map.get(key));
            map.values().for_each(|value| values(key, value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| values(key, value, found)),
        _ => {}
    }
}

fn strings(key: &str, within: &Value) -> Vec<String> {
    let mut found = Vec::new();
    values(key, within, &mut found);
    found.into_iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[test]
fn there_is_a_workflow_for_changes_and_one_for_releases() {
    let workflows = workflows();
    for path in [".github/workflows/ci.yml", ".github/workflows/release.yml"] {
        assert!(workflows.iter().any(|workflow| workflow == path), "{path} is not among {workflows:?}");
    }
}

#[test]
fn every_action_is_pinned_to_a_commit_and_says_its_version() {
    let is_commit = |pin: &str| pin.len() == 40 && pin.bytes().all(|byte| byte.is_ascii_hexdigit());
    for path in workflows() {
        let (parsed, raw) = (yaml(&path), text(&path));
        for uses in strings("uses", &parsed).iter().filter(|uses| !uses.starts_with("./")) {
            let pin = uses.split_once('@').map_or("", |(_, pin)| pin);
            assert!(is_commit(pin), "{path}: {uses} is not pinned to a commit of 40 hexadecimal digits");
            let line = raw.lines().find(|line| line.contains(uses.as_str())).unwrap();
            assert!(line.contains(&format!("{uses} # v")), "{path}: {uses} does not say its version in a comment");
        }
    }
}

#[test]
fn one_action_is_one_commit_everywhere() {
    let mut pins: Vec<_> = workflows().iter().flat_map(|path| strings("uses", &yaml(path))).collect();
    pins.sort();
    pins.dedup();
    let mut names: Vec<_> = pins.iter().map(|uses| uses.split('@').next().unwrap()).collect();
    names.dedup();
    assert_eq!(names.len(), pins.len(), "{pins:?}");
}

#[test]
fn every_workflow_says_what_it_may_do_and_none_may_do_everything() {
    for path in workflows().iter().filter(|path| path.starts_with(".github/workflows/")) {
        let parsed = yaml(path);
        let top = parsed.get("permissions").unwrap_or_else(|| panic!("{path}: no permissions at the top"));
        let writes = top.as_object().is_none_or(|rights| rights.values().any(|right| right == "write"));
        assert!(!writes, "{path}: rights to write are for the job that needs them, not for all: {top}");
        for (name, job) in parsed["jobs"].as_object().unwrap() {
            let rights = job.get("permissions");
            assert!(rights.is_none_or(Value::is_object), "{path}: job {name}: name each right");
        }
    }
}

#[test]
fn no_script_is_put_together_from_what_others_wrote() {
    // An expression is replaced before the shell sees the line: whoever chooses a branch's name could write commands.
    for path in workflows() {
        for script in strings("run", &yaml(&path)) {
            assert!(!script.contains("${{"), "{path}: pass it in through env:\n{script}");
        }
    }
}

#[test]
fn the_versions_agree() {
    let metadata = yaml("policy-metadata/metadata.yml");
    assert_eq!(metadata["annotations"]["io.kubewarden.policy.version"], VERSION, "policy-metadata/metadata.yml");
    let hub = yaml("artifacthub/artifacthub-pkg.yml");
    assert_eq!(hub["version"], VERSION, "artifacthub/artifacthub-pkg.yml");
    let image = format!("{}:v{VERSION}", metadata["annotations"]["io.kubewarden.policy.ociUrl"].as_str().unwrap());
    assert_eq!(hub["containersImages"][0]["image"], image.as_str(), "artifacthub/artifacthub-pkg.yml");
    let core = text("Cargo.toml");
    let core = core.lines().find(|line| line.starts_with("operator-bounds-core = ")).unwrap();
    assert!(core.contains(&format!("version = \"{VERSION}\"")), "Cargo.toml: {core}");
}

#[test]
fn whatever_names_the_published_policy_names_this_version() {
    let published = "policies/operator-bounds:v";
    let mut named = 0;
    for directory in ["policy-metadata", "artifacthub"] {
        for entry in fs::read_dir(root().join(directory)).unwrap() {
            let path = entry.unwrap().path();
            for line in fs::read_to_string(&path).unwrap().lines() {
                for rest in line.split(published).skip(1) {
                    named += 1;
                    let version: String = rest.chars().take_while(|sign| !sign.is_whitespace()).collect();
                    assert_eq!(version, VERSION, "{}: {line}", path.display());
                }
            }
        }
    }
    assert!(named > 5, "only {named} places name it");
}

#[test]
fn the_changelog_has_this_version() {
    let changelog = text("CHANGELOG.md");
    let heading = format!("## [{VERSION}]");
    let heading = changelog.lines().find(|line| line.starts_with(&heading));
    assert!(heading.is_some(), "CHANGELOG.md has no heading for {VERSION}");
    assert!(changelog.contains(&format!("\n[{VERSION}]: https://")), "CHANGELOG.md has no link for {VERSION}");
}

#[test]
fn a_release_has_the_tag_of_its_version_and_a_day() {
    let Ok(tag) = std::env::var("RELEASE_TAG") else { return };
    assert_eq!(tag, format!("v{VERSION}"), "the tag and Cargo.toml");
    let changelog = text("CHANGELOG.md");
    let heading = changelog.lines().find(|line| line.starts_with(&format!("## [{VERSION}]"))).unwrap();
    let day = heading.rsplit(" - ").next().unwrap();
    let is_day = day.len() == 10 && day.bytes().all(|sign| sign.is_ascii_digit() || sign == b'-');
    assert!(is_day, "CHANGELOG.md: `{heading}` has no day: write it before the tag");
    let hub = yaml("artifacthub/artifacthub-pkg.yml");
    let created = hub["createdAt"].as_str().unwrap();
    assert!(created.starts_with(day), "artifacthub/artifacthub-pkg.yml: createdAt is {created} and not {day}");
}

#[test]
fn the_release_has_the_file_that_artifact_hub_links_to() {
    let hub = yaml("artifacthub/artifacthub-pkg.yml");
    let links = strings("url", &hub["links"]);
    let link = links.iter().find(|url| url.contains("/releases/download/")).unwrap();
    assert!(link.ends_with(&format!("/v{VERSION}/policy.wasm")), "{link}");
    let release = text(".github/workflows/release.yml");
    assert!(release.contains("cp annotated-policy.wasm dist/policy.wasm"), "the release has no policy.wasm");
}

//! The documents are true where a program can tell: links lead somewhere, defaults are the defaults, and every module is named.

// A test that cannot go on fails.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use bounds::settings::Settings;
use operator_bounds::documents;
use serde_json::Value;

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let listed = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "*.md"])
        .output()
        .unwrap();
    let names = String::from_utf8(listed.stdout).unwrap();
    names.lines().map(|name| root.join(name)).filter(|page| page.exists()).collect()
}

/// What stands in `](…)`, without the place on the page.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    targets.filter(|link| !link.is_empty() && !link.contains("://") && !link.starts_with("mailto:"))
}

#[test]
fn every_link_of_the_documents_leads_to_something() {
    let mut seen = 0;
    let mut broken = Vec::new();
    for page in pages() {
        for link in links(&fs::read_to_string(&page).unwrap()) {
            seen += 1;
            if !page.parent().unwrap().join(link).exists() {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(seen > 100, "only {seen} links were found");
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The first block of YAML on the settings page: all settings, with their defaults.
fn defaults_on_the_page() -> Value {
    let page = read("docs/settings.md");
    let block = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    documents::parse(Path::new("settings.yaml"), block.as_bytes()).unwrap().remove(0)
}

#[test]
fn the_settings_page_shows_the_defaults() {
    let shown = Settings::read(&defaults_on_the_page().to_string()).unwrap();
    assert_eq!(format!("{shown:#?}"), format!("{:#?}", Settings::default()));
}

#[test]
fn the_readme_and_the_settings_form_name_every_setting() {
    let (readme, form) = (read("README.md"), read("policy-metadata/questions-ui.yml"));
    let shown = defaults_on_the_page();
    let mut seen = 0;
    for (key, value) in shown.as_object().unwrap() {
        // The keys of `exempt` and `untrusted` are values to fill in, not settings with a default of their own.
        let inner = value.as_object().filter(|_| key != "exempt");
        for name in inner.map_or_else(|| vec![key.as_str()], |inner| inner.keys().map(String::as_str).collect()) {
            seen += 1;
            let full = if name == key { name.to_owned() } else { format!("{key}.{name}") };
            let is_in_readme = readme.contains(&format!("`{full}`")) || readme.contains(&format!("`.{name}`"));
            assert!(is_in_readme, "README.md does not name {full}");
            assert!(form.contains(name), "questions-ui.yml does not have {full}");
        }
    }
    assert!(seen > 15, "only {seen} settings were found");
}

#[test]
fn the_architecture_page_names_every_module_of_the_core() {
    let page = read("docs/architecture.md");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/bounds/src");
    let mut seen = 0;
    for room in ["", "read", "rbac", "olm", "decide", "judge"] {
        for entry in fs::read_dir(source.join(room)).unwrap() {
            let path = entry.unwrap().path();
            let stem = path.file_stem().unwrap().to_str().unwrap();
            if path.is_dir() || matches!(stem, "lib" | "mod") {
                continue;
            }
            seen += 1;
            assert!(page.contains(&format!("`{stem}`")), "docs/architecture.md does not name {room}/{stem}");
        }
    }
    assert!(seen > 40, "only {seen} modules were found");
}

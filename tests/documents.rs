//! The documents lead somewhere: every relative link of every page is to a file or a directory that is there.

// A test that cannot go on fails.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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

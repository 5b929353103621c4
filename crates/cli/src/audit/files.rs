//! The proposals as files to review: one for each boundary, ready to apply, and the settings that the policy needs for them.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use serde_json::Value;

use crate::check::report::one_line;
use crate::documents::FileError;
use crate::yaml;

use super::propose::{self, Change, Proposal};
use super::{Outcome, Report};

/// Where the settings are. `kubectl apply -f` does not go into directories, and settings are no object.
const SETTINGS: &str = "settings";
/// The file in there.
pub const SETTINGS_FILE: &str = "settings/operator-bounds.yaml";

/// Makes sure that a directory is new or empty: what was reviewed and changed is never overwritten.
pub fn prepare(directory: &Path) -> Result<(), FileError> {
    let fail = |error: std::io::Error| FileError::new(directory, error);
    let is_empty = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => true,
        files => files.map_err(fail)?.next().is_none(),
    };
    if is_empty {
        return Ok(());
    }
    Err(FileError::new(directory, "is not empty: name a new directory, and nothing is overwritten"))
}

/// Writes the proposals into a directory that is prepared. Returns the names of the files.
pub fn write(report: &Report, directory: &Path) -> Result<Vec<String>, FileError> {
    let fail = |error: std::io::Error| FileError::new(directory, error);
    fs::create_dir_all(directory).map_err(fail)?;
    let mut written = Vec::new();
    let mut add = |name: &str, content: &str| -> Result<(), FileError> {
        let path = directory.join(name);
        let result = File::create_new(&path).and_then(|mut file| file.write_all(content.as_bytes()));
        result.map_err(|error| FileError::new(&path, error))?;
        written.push(name.to_owned());
        Ok(())
    };
    for proposal in &report.proposals {
        add(&proposal.file, &content(proposal))?;
    }
    if let Some((settings, changes)) = propose::settings(&report.rules, &report.proposals) {
        fs::create_dir(directory.join(SETTINGS)).map_err(fail)?;
        add(SETTINGS_FILE, &settings_content(&settings, changes.into_iter()))?;
    }
    add("README.md", &readme(report))?;
    Ok(written)
}

/// A proposal as its file has it.
#[must_use]
pub fn content(proposal: &Proposal) -> String {
    let mut text = format!("# Proposed by operator-bounds audit: {} bounds\n", one_line(&proposal.boundary));
    for name in &proposal.bounds {
        text.push_str(&format!("#   {name}\n"));
    }
    text.push_str("# With this applied, the policy calls them bounded. Review it, then: kubectl apply -f ");
    text.push_str(&proposal.file);
    text.push('\n');
    for Change { section, setting, to, .. } in &proposal.settings {
        text.push_str(&format!("# It takes the policy's setting {section}.{setting}: {to} ({SETTINGS_FILE})\n"));
    }
    text + &proposal.yaml
}

fn settings_content(settings: &Value, changes: impl Iterator<Item = Change>) -> String {
    let mut text =
        "# The policy's settings that the proposals need: put them into its registrations, and audit with them:\n\
                    #   operator-bounds audit --settings-path settings/operator-bounds.yaml\n"
            .to_owned();
    for Change { section, setting, to, meaning } in changes {
        text.push_str(&format!("# {section}.{setting}: {to}\n#   {meaning}\n"));
    }
    text + &yaml::document(settings)
}

fn readme(report: &Report) -> String {
    let mut text = "# Proposed boundaries\n\n\
        Written by `operator-bounds audit --write`. Each file gives a boundary to operators that have none. Each was laid over the \
        cluster as it was read, and the policy called every operator in it bounded. Nothing is bounded before it is applied, and \
        before the policy is registered with Kubewarden.\n\n\
        Review the files, then:\n\n```console\n$ kubectl diff -f .\n$ kubectl apply -f .\n```\n\n\
        Running operators keep running. They are judged at their next upgrade, and the next version of an operator may need more: \
        `operator-bounds derive` prints it.\n\n| file | boundary | bounds |\n|---|---|---|\n"
        .to_owned();
    let cell = |text: &str| one_line(text).replace('|', "\\|").replace('`', "'");
    for proposal in &report.proposals {
        let names: Vec<String> = proposal.bounds.iter().map(|name| cell(&name.to_string())).collect();
        text.push_str(&format!("| `{}` | {} | {} |\n", proposal.file, cell(&proposal.boundary), names.join(", ")));
    }
    if let Some((_, changes)) = propose::settings(&report.rules, &report.proposals) {
        text.push_str(&format!("\n`{SETTINGS_FILE}` has the policy's settings that they take:\n\n"));
        for Change { section, setting, to, meaning } in changes {
            text.push_str(&format!("- `{section}.{setting}: {to}`: {meaning}\n"));
        }
    }
    let left = report.audited.iter().filter_map(|audited| match &audited.proposal {
        Some(Outcome::Impossible(reason)) => Some(format!("- {}: {}\n", cell(&audited.name.to_string()), cell(reason))),
        _ => None,
    });
    let left: String = left.collect();
    if !left.is_empty() {
        text.push_str(&format!("\nFor these nothing can be proposed:\n\n{left}"));
    }
    text
}

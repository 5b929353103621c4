//! `operator-bounds derive`, as an administrator runs it.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use operator_bounds::documents;
use serde_json::Value;
use test_olm::Bundle;

/// How a group targets namespaces.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mode<'a> {
    Own,
    Several(&'a [&'a str]),
    All,
}

/// The RBAC that lets an account install a bundle.
pub(crate) fn for_account(
    program: &Path,
    bundle: &Bundle,
    account: &str,
    mode: Mode<'_>,
) -> anyhow::Result<Vec<Value>> {
    let mut arguments = vec!["--for", "serviceaccount", account, "--install-mode"];
    match mode {
        Mode::Own => arguments.push("OwnNamespace"),
        Mode::All => arguments.push("AllNamespaces"),
        Mode::Several(targets) => {
            arguments.push("MultiNamespace");
            arguments.extend(targets.iter().flat_map(|target| ["--target", target]));
        }
    }
    derive(program, bundle, &arguments)
}

/// What `derive` prints for a bundle with these arguments.
pub(crate) fn derive(program: &Path, bundle: &Bundle, arguments: &[&str]) -> anyhow::Result<Vec<Value>> {
    let directory = tempfile::TempDir::new()?;
    let manifests = directory.path().join("manifests");
    std::fs::create_dir(&manifests)?;
    for (number, object) in bundle.objects().enumerate() {
        std::fs::write(manifests.join(format!("{number}.json")), object.to_string())?;
    }
    let mut command = Command::new(program);
    command.arg("derive").arg(directory.path()).args(arguments).stderr(Stdio::piped());
    let printed = command.output().with_context(|| program.display().to_string())?;
    ensure!(printed.status.success(), "derive {}: {}", bundle.name(), String::from_utf8_lossy(&printed.stderr));
    Ok(documents::parse(Path::new("derive"), &printed.stdout)?)
}

/// The same RBAC without this resource, wherever it is granted to read or write it. The names that OLM writes under stay.
pub(crate) fn without(rbac: &[Value], resource: &str) -> Vec<Value> {
    let mut less = rbac.to_vec();
    for rules in less.iter_mut().filter_map(|object| object.get_mut("rules")?.as_array_mut()) {
        for rule in rules.iter_mut() {
            if let Some(resources) = rule.get_mut("resources").and_then(Value::as_array_mut) {
                resources.retain(|other| other != resource);
            }
        }
        rules.retain(|rule| rule["resources"].as_array().is_none_or(|resources| !resources.is_empty()));
    }
    less
}

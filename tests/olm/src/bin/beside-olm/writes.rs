//! `docs/olm-writes.md`: what OLM really writes, out of the audit log of a run.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use test_plane::audit::Event;

const HEAD: &str = "# What OLM writes

Made by `make olm-writes` out of the API server's audit log, while the real OLM installs, upgrades and removes the operators of
`tests/olm` beside the policy. Refused attempts and dry runs are left out, and so are Events and Leases. *Judged* are the writes that
the API server sent to the policy, by the rules and match conditions of `policy-metadata/`; the rest never leaves the API server.
Where only some of a row are, the others are copies of what was judged before, or touch nothing that grants a right.

The figures depend on the operators and on timing (OLM repeats what it has tried in vain); who writes what with which verb does not.
";

/// Whom the rows of a table are about, by user names.
pub(crate) struct Writers {
    pub(crate) title: &'static str,
    /// What a user is called, if it is one of them.
    pub(crate) called: fn(&str) -> Option<&'static str>,
}

#[derive(Default)]
struct Count {
    writes: usize,
    judged: usize,
}

/// One section: a table of who wrote what.
pub(crate) fn section(writers: &Writers, events: &[Event]) -> String {
    let mut rows: BTreeMap<(&str, String, String), Count> = BTreeMap::new();
    for event in events.iter().filter(|event| event.code() < 300 && !event.is_dry_run()) {
        if let Some(writer) = (writers.called)(event.user()) {
            let count = rows.entry((writer, event.resource(), event.verb.clone())).or_default();
            count.writes += 1;
            count.judged += usize::from(event.annotations.keys().any(|key| key.ends_with("/verdict")));
        }
    }
    let mut text =
        format!("\n## {}\n\n| who | what | verb | writes | judged |\n|---|---|---|---:|---:|\n", writers.title);
    for ((writer, resource, verb), Count { writes, judged }) in rows {
        text.push_str(&format!("| {writer} | `{resource}` | {verb} | {writes} | {judged} |\n"));
    }
    text
}

/// Writes the page.
pub(crate) fn write(path: &Path, sections: &[String]) -> anyhow::Result<()> {
    std::fs::write(path, format!("{HEAD}{}", sections.concat())).with_context(|| path.display().to_string())
}

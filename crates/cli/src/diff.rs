//! What is requested and not granted, for files of rules and for streams of pairs.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

use bounds::rbac::{Atom, Index, Rule, compact};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::documents::{self, FileError};
use crate::manifests;

/// Pairs come by the hundred thousand: few system calls for many lines.
const BUFFER: usize = 1 << 20;

/// The rules of a file: of its Roles, ClusterRoles and ClusterServiceVersions, or a bare list of rules.
pub fn rules(path: &Path) -> Result<Vec<Rule<'static>>, FileError> {
    let mut rules = Vec::new();
    for document in documents::read(path)? {
        match document {
            Value::Array(_) => add(path, "rules", &document, &mut rules)?,
            object => {
                for object in manifests::objects(object) {
                    add_object(path, &object, &mut rules)?;
                }
            }
        }
    }
    Ok(rules)
}

fn add_object(path: &Path, object: &Value, rules: &mut Vec<Rule<'static>>) -> Result<(), FileError> {
    match object["kind"].as_str() {
        Some("Role" | "ClusterRole") => add(path, "rules", &object["rules"], rules),
        Some("ClusterServiceVersion") => {
            let install = &object["spec"]["install"]["spec"];
            for field in ["permissions", "clusterPermissions"] {
                if !install[field].is_array() && !install[field].is_null() {
                    return Err(FileError::new(path, format!("spec.install.spec.{field}: expected a list")));
                }
                for (index, permission) in install[field].as_array().into_iter().flatten().enumerate() {
                    let place = format!("spec.install.spec.{field}[{index}].rules");
                    add(path, &place, &permission["rules"], rules)?;
                }
            }
            Ok(())
        }
        kind => {
            let found = kind.unwrap_or("an object without a kind");
            let expected = "expected Role, ClusterRole, ClusterServiceVersion, a List of them, or a list of rules";
            Err(FileError::new(path, format!("{found} has no rules: {expected}")))
        }
    }
}

fn add(path: &Path, place: &str, list: &Value, rules: &mut Vec<Rule<'static>>) -> Result<(), FileError> {
    let text = list.to_string();
    let read: Option<Vec<Rule<'_>>> =
        bounds::read::json::read(&text, place).map_err(|error| FileError::new(path, error))?;
    rules.extend(read.into_iter().flatten().map(Rule::into_owned));
    Ok(())
}

/// The excess, compacted, a rule a line.
#[must_use]
pub fn excess(granted: &[Rule<'_>], requested: &[Rule<'_>]) -> Vec<String> {
    compact(Index::new(granted).uncovered(requested)).iter().map(ToString::to_string).collect()
}

/// A line of input.
#[derive(Deserialize)]
struct Pair<'a> {
    #[serde(borrow, deserialize_with = "null_is_empty")]
    owner: Vec<Rule<'a>>,
    #[serde(borrow, deserialize_with = "null_is_empty")]
    requested: Vec<Rule<'a>>,
}

/// A line of output.
#[derive(Serialize)]
struct Answer<'a> {
    covers: bool,
    uncovered: Vec<Atom<'a>>,
}

/// Go writes an empty list as `null`.
fn null_is_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Rule<'de>>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl<'a> Pair<'a> {
    fn read(line: &'a [u8], number: usize) -> io::Result<Self> {
        serde_json::from_slice(line).map_err(|error| {
            let reason = error.to_string();
            let reason = reason.rsplit_once(" at line ").map_or(reason.as_str(), |(reason, _)| reason);
            io::Error::new(io::ErrorKind::InvalidData, format!("line {number}, column {}: {reason}", error.column()))
        })
    }

    fn uncovered(&self) -> Vec<Atom<'_>> {
        Index::new(&self.owner).uncovered(&self.requested)
    }
}

/// Answers `{"owner":[rules],"requested":[rules]}` with `{"covers":bool,"uncovered":[rules]}`, line by line, in order.
pub fn stream(input: impl Read, output: impl Write) -> io::Result<()> {
    let mut input = BufReader::with_capacity(BUFFER, input);
    let mut output = BufWriter::with_capacity(BUFFER, output);
    let mut line = Vec::new();
    for number in 1.. {
        // Whoever writes one pair and waits for its answer must not wait for ever.
        if input.buffer().is_empty() {
            output.flush()?;
        }
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let pair = match Pair::read(&line, number) {
            Ok(pair) => pair,
            Err(error) => {
                output.flush()?;
                return Err(error);
            }
        };
        let uncovered = pair.uncovered();
        serde_json::to_writer(&mut output, &Answer { covers: uncovered.is_empty(), uncovered })?;
        output.write_all(b"\n")?;
    }
    output.flush()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn file(name: &str, content: &str) -> Result<Vec<Rule<'static>>, String> {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        rules(&path).map_err(|error| error.to_string())
    }

    fn streamed(input: &str) -> (String, io::Result<()>) {
        let mut output = Vec::new();
        let result = stream(input.as_bytes(), &mut output);
        (String::from_utf8(output).unwrap(), result)
    }

    #[test]
    fn rules_come_from_every_kind_that_has_them() {
        let rule = "{apiGroups: [''], resources: [pods], verbs: [get]}";
        for content in [
            format!("- {rule}"),
            format!("kind: Role\nrules: [{rule}]"),
            format!("kind: ClusterRole\nrules: [{rule}]"),
            format!("kind: List\nitems: [{{kind: Role, rules: null}}, {{kind: ClusterRole, rules: [{rule}]}}]"),
            format!("kind: ClusterServiceVersion\nspec: {{install: {{spec: {{permissions: [{{rules: [{rule}]}}]}}}}}}"),
            format!(
                "kind: ClusterServiceVersion\nspec: {{install: {{spec: {{clusterPermissions: [{{rules: [{rule}]}}, {{rules: null}}], permissions: null}}}}}}"
            ),
        ] {
            assert_eq!(file("a.yaml", &content).unwrap(), [Rule::on(&[""], &["pods"], &["get"])], "{content}");
        }
    }

    #[test]
    fn a_kind_without_rules_and_a_rule_of_the_wrong_shape_are_errors_that_say_where() {
        let error = file("a.yaml", "kind: Pod").unwrap_err();
        assert!(error.contains("a.yaml: Pod has no rules: expected Role"), "{error}");
        let error = file("a.yaml", "kind: Role\nrules: [{verbs: get}]").unwrap_err();
        assert!(error.contains("a.yaml: rules[0].verbs: "), "{error}");
    }

    #[test]
    fn the_excess_is_compacted() {
        let granted = [Rule::on(&[""], &["pods"], &["get"])];
        let requested = [Rule::on(&[""], &["pods", "secrets"], &["get", "list"])];
        assert_eq!(excess(&granted, &granted), Vec::<String>::new());
        let lines = excess(&granted, &requested).join("\n");
        assert!(lines.contains("secrets") && lines.contains("list"), "{lines}");
    }

    #[test]
    fn every_pair_gets_its_line_in_order() {
        let rule = |verb: &str| json!({"apiGroups": [""], "resources": ["pods"], "verbs": [verb]});
        let pairs = [
            json!({"owner": [rule("*")], "requested": [rule("get")]}),
            json!({"owner": null, "requested": [rule("get")]}),
            json!({"owner": [rule("get")], "requested": null}),
        ];
        let (output, result) = streamed(&pairs.map(|pair| pair.to_string()).join("\n\n"));
        result.unwrap();
        let lines: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let covered = json!({"covers": true, "uncovered": []});
        assert_eq!(lines, [covered.clone(), json!({"covers": false, "uncovered": [rule("get")]}), covered]);
    }

    #[test]
    fn a_bad_line_is_named_and_what_came_before_it_is_answered() {
        let (output, result) = streamed("{\"owner\":[],\"requested\":[]}\n{\"owner\":7}\n");
        assert_eq!(output.lines().count(), 1);
        let error = result.unwrap_err().to_string();
        assert!(error.starts_with("line 2, column 10: invalid type"), "{error}");
    }
}

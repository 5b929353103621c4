//! What is missing for an extension that is there: by the refusal in its conditions, or by the release that is installed.

use std::sync::Arc;

use bounds::rbac::{Rule, Scope};
use bounds::settings::Settings;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::need::{Needs, Origin};
use super::{DeriveError, Whom};
use crate::host::{GetResource, HostError, ListResources};
use crate::policy::Policy;
use crate::source::Source;

/// What the policy has found missing.
#[derive(Debug)]
pub struct Missing {
    /// The bundle that was to be installed.
    pub bundle: String,
    /// Whose rights were not enough.
    pub whom: Whom,
    /// What they lacked.
    pub needs: Needs,
}

/// What is missing for an extension; nothing if nothing is.
pub fn missing(policy: &Policy, source: &Arc<dyn Source>, name: &str) -> Result<Option<Missing>, DeriveError> {
    let extension = get(source.as_ref(), name)?;
    let conditions = extension["status"]["conditions"].as_array().into_iter().flatten();
    let refused = conditions.filter_map(|condition| condition["message"].as_str()).find_map(Refusal::find);
    let refusal = match refused {
        Some(refusal) => Some(refusal),
        None => of_installed(policy, source, &extension, name)?,
    };
    refusal.map(|refusal| refusal.read(name)).transpose()
}

/// What a refusal of the policy lists for an extension; nothing if it is none of that kind.
pub fn of_refusal(message: &str, name: &str) -> Result<Option<Missing>, DeriveError> {
    Refusal::find(message).map(|refusal| refusal.read(name)).transpose()
}

fn failed(name: &str, reason: impl std::fmt::Display) -> DeriveError {
    DeriveError::Extension { name: name.to_owned(), reason: reason.to_string() }
}

fn get(source: &dyn Source, name: &str) -> Result<Value, DeriveError> {
    let get = GetResource {
        api_version: "olm.operatorframework.io/v1".to_owned(),
        kind: "ClusterExtension".to_owned(),
        name: name.to_owned(),
        namespace: None,
        disable_cache: true,
        field_masks: None,
    };
    let answer = source.get(&get).map_err(|error| match error {
        HostError::NotFound(_) => failed(name, "does not exist"),
        other => failed(name, other),
    })?;
    serde_json::from_slice(&answer).map_err(|error| failed(name, error))
}

/// Has the policy judge the newest release as if it came now.
fn of_installed(
    policy: &Policy,
    source: &Arc<dyn Source>,
    extension: &Value,
    name: &str,
) -> Result<Option<Refusal>, DeriveError> {
    let (account, release) = newest_release(source.as_ref(), name)?;
    let bound = if extension["spec"]["serviceAccount"].is_null() { "synthetic" } else { "serviceAccount" };
    let raw = |value: Value| RawValue::from_string(value.to_string()).map_err(|error| failed(name, error));
    let settings = raw(json!({"clusterExtensions": {"bound": bound}}))?;
    let request = raw(json!({
        "uid": "derive", "operation": "CREATE", "object": release,
        "kind": {"group": "", "version": "v1", "kind": "Secret"},
        "resource": {"group": "", "version": "v1", "resource": "secrets"},
        "name": release["metadata"]["name"], "namespace": release["metadata"]["namespace"],
        "userInfo": {"username": account, "groups": ["system:authenticated"]},
    }))?;
    let host = Arc::new(policy.host_on(Arc::clone(source)));
    let response = policy.validate(&request, &settings, &host).map_err(|error| failed(name, error))?;
    let message = response.message.unwrap_or_default();
    match Refusal::find(&message) {
        None if !response.accepted => Err(failed(name, message)),
        found => Ok(found),
    }
}

/// The newest release of an extension, and the account of OLM that wrote it.
fn newest_release(source: &dyn Source, name: &str) -> Result<(String, Value), DeriveError> {
    let mut releases: Vec<(u64, String, Value)> = Vec::new();
    for account in Settings::default().olm.v1_users {
        let namespace = account.split(':').nth(2).unwrap_or_default();
        let list = ListResources {
            api_version: "v1".to_owned(),
            kind: "Secret".to_owned(),
            namespace: Some(namespace.to_owned()),
            label_selector: None,
            field_selector: (),
            field_masks: None,
        };
        let answer = source.list(&list).map_err(|error| failed(name, error))?;
        let answer: Value = serde_json::from_slice(&answer).map_err(|error| failed(name, error))?;
        for release in answer["items"].as_array().into_iter().flatten().filter(|secret| is_release_of(secret, name)) {
            let version = release["metadata"]["labels"]["version"].as_str().and_then(|version| version.parse().ok());
            releases.push((version.unwrap_or_default(), account.clone(), release.clone()));
        }
    }
    let newest = releases.into_iter().max_by_key(|(version, ..)| *version);
    newest.map(|(_, account, release)| (account, release)).ok_or_else(|| {
        failed(
            name,
            "has no release in the namespace of OLM, and no refusal in its conditions: name its bundle instead",
        )
    })
}

/// Whether a Secret is a release of this extension: OLM labels them as Helm does.
fn is_release_of(secret: &Value, name: &str) -> bool {
    let labels = &secret["metadata"]["labels"];
    [("owner", "operator-controller"), ("name", name), ("type", "index")]
        .iter()
        .all(|(key, value)| labels[*key] == *value)
}

/// A refusal of a whole bundle, in the policy's words.
#[derive(Debug)]
struct Refusal {
    bundle: String,
    boundary: String,
    /// The list of what is missing.
    lines: Vec<String>,
}

impl Refusal {
    /// The refusal in a message, wherever it is.
    fn find(message: &str) -> Option<Self> {
        let (before, after) = message.split_once(" asks for more than ")?;
        let (boundary, rest) = after.split_once(" allows (")?;
        // `Bundle demo.v1 of ClusterExtension demo`, or `Secret olmv1-system/demo-1-2f3a of …`
        let (what, _) = before.rsplit_once(" of ClusterExtension ")?;
        let bundle = what.rsplit([' ', '/']).next()?;
        let lines = rest.lines().skip(1).map(str::to_owned).collect();
        Some(Refusal { bundle: bundle.to_owned(), boundary: boundary.to_owned(), lines })
    }

    fn read(self, name: &str) -> Result<Missing, DeriveError> {
        let whom = match self.boundary.split_once(' ') {
            Some(("ServiceAccount", account)) => account.split_once('/').map(|(namespace, account)| Whom::Account {
                namespace: namespace.to_owned(),
                name: account.to_owned(),
            }),
            _ => Some(Whom::Synthetic { extension: name.to_owned() }),
        };
        let whom = whom.ok_or_else(|| failed(name, format!("was refused for {:?}, which is nobody", self.boundary)))?;
        let mut needs = Needs::default();
        let mut scope = Scope::Cluster;
        for line in &self.lines {
            match line.strip_prefix("  ").map(|line| (line.starts_with("  "), line.trim())) {
                Some((true, rule)) => {
                    let rule = rule_of(rule).ok_or_else(|| failed(name, format!("{rule:?} is no rule")))?;
                    needs.add(&scope, rule, Origin::new(format!("refused: {}", self.bundle)));
                }
                Some((false, "cluster-wide")) => scope = Scope::Cluster,
                Some((false, text)) if text.starts_with("in namespace ") => {
                    scope = Scope::Namespace(text["in namespace ".len()..].to_owned());
                }
                Some((false, text)) if text.starts_with('…') => {
                    return Err(failed(
                        name,
                        format!("lacks more than the refusal has room for ({text}): name its bundle instead"),
                    ));
                }
                _ => break,
            }
        }
        Ok(Missing { bundle: self.bundle, whom, needs })
    }
}

/// A rule as the policy writes it: `apiGroups: [""]  resources: [nodes]  verbs: [get, list]`.
fn rule_of(text: &str) -> Option<Rule<'static>> {
    let mut rule = Rule::default();
    for part in text.split("  ") {
        let (key, list) = part.split_once(": ")?;
        let list = list.strip_prefix('[')?.strip_suffix(']')?;
        let items = list.split(", ").map(|item| item.trim_matches('"').to_owned().into()).collect();
        match key {
            "apiGroups" => rule.api_groups = items,
            "resources" => rule.resources = items,
            "verbs" => rule.verbs = items,
            "resourceNames" => rule.resource_names = items,
            "nonResourceURLs" => rule.non_resource_urls = items,
            _ => return None,
        }
    }
    Some(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_read_as_it_is_written() {
        for rule in [
            Rule::on(&["", "apps"], &["nodes", "*"], &["get", "list"]),
            Rule::on(&["example.com"], &["x/status"], &["*"]).named(&["a", "b.c"]),
            Rule::on_urls(&["/healthz", "*"], &["get"]),
        ] {
            assert_eq!(rule_of(&rule.to_string()), Some(rule));
        }
        assert_eq!(rule_of("nothing of it was written"), None);
    }

    #[test]
    fn a_refusal_is_found_in_what_the_api_server_makes_of_it() {
        let message = "error for resolved bundle: admission webhook \"x\" denied the request: Bundle demo.v1 of ClusterExtension demo \
                       asks for more than ServiceAccount ns/installer allows (ClusterExtension demo):\n  cluster-wide\n    \
                       apiGroups: [\"\"]  resources: [nodes]  verbs: [get]\n  in namespace ns\n    apiGroups: [apps]  resources: \
                       [deployments]  verbs: [create]\n  nothing of it was written\nGrant it with: …";
        let missing = Refusal::find(message).unwrap().read("demo").unwrap();
        assert_eq!(missing.bundle, "demo.v1");
        assert_eq!(missing.whom, Whom::Account { namespace: "ns".to_owned(), name: "installer".to_owned() });
        let scopes: Vec<&Scope> = missing.needs.0.iter().map(|need| &need.scope).collect();
        assert_eq!(scopes, [&Scope::Cluster, &Scope::Namespace("ns".to_owned())]);
        assert!(Refusal::find("Installed bundle demo.v1 successfully").is_none());
        let set = message.replace("Bundle demo.v1", "Secret olmv1-system/demo-1-2f3a");
        assert_eq!(Refusal::find(&set).unwrap().bundle, "demo-1-2f3a");
        let cut = message.replace("  nothing of it", "  … and 3 more rules\n  nothing of it");
        assert!(Refusal::find(&cut).unwrap().read("demo").unwrap_err().to_string().contains("name its bundle"));
    }
}

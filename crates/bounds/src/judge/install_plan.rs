//! InstallPlan: the person who approves it is told what it exceeds, not a log file.
//!
//! Only an UPDATE that approves is judged. On CREATE the steps are not there yet, and a refused `/status` would leave a
//! plan that OLM skips for ever.

use serde::Deserialize;

use crate::borrowed::Operator;
use crate::boundary::{self, Boundary, Bounds};
use crate::cluster::CONFIG_MAPS;
use crate::context::Context;
use crate::csv::ClusterServiceVersion;
use crate::demand::{self, Demand, DemandedRules, RBAC};
use crate::excess::{Judged, bounded, grants};
use crate::grant::RoleRef;
use crate::group::{self, Group};
use crate::json;
use crate::lookups::RoleKey;
use crate::meta::Meta;
use crate::object::object;
use crate::rule::Rule;
use crate::scope::Scope;
use crate::text::Text;
use crate::verdict::{Admitted, Refusal};
use crate::{bundle, message};

use super::{Verdict, csv, namespace_of, read_new, read_old, said, subscription};

/// As many unpacked bundles as one approval looks into.
const MAX_BUNDLES: usize = 16;

object! {
    #[derive(Debug, Default)]
    struct InstallPlan<'a> {
        metadata: Meta<'a> = "metadata",
        spec: Spec = "spec",
        status: Status<'a> = "status",
    }
}

object! {
    #[derive(Default, Debug)]
    struct Spec {
        approved: bool = "approved",
    }
}

object! {
    #[derive(Default, Debug)]
    struct Status<'a> {
        plan: Vec<Step<'a>> = "plan",
    }
}

object! {
    #[derive(Default, Debug)]
    struct Step<'a> {
        /// The name of the ClusterServiceVersion that the step belongs to.
        resolving: Text<'a> = "resolving",
        resource: StepResource<'a> = "resource",
    }
}

object! {
    #[derive(Default, Debug)]
    struct StepResource<'a> {
        group: Text<'a> = "group",
        kind: Text<'a> = "kind",
        name: Text<'a> = "name",
        manifest: Text<'a> = "manifest",
    }
}

object! {
    /// Any manifest of a plan: what kind it is, and the fields of all judged kinds.
    #[derive(Debug, Default)]
    struct Manifest<'a> {
        kind: Text<'a> = "kind",
        metadata: Meta<'a> = "metadata",
        role_ref: RoleRef<'a> = "roleRef",
        rules: Vec<Rule<'a>> = "rules",
    }
}

object! {
    /// Where OLM put the manifests of a bundle that it unpacked.
    #[derive(Debug, Default)]
    struct BundleReference<'a> {
        kind: Text<'a> = "kind",
        name: Text<'a> = "name",
        namespace: Text<'a> = "namespace",
        catalog_source: Text<'a> = "catalogSourceName",
    }
}

pub(super) fn judge(cx: &Context<'_>) -> Verdict {
    let plan: InstallPlan<'_> = read_new(cx)?;
    let Some(old) = read_old::<InstallPlan<'_>>(cx)? else { return Ok(Admitted("not-judged")) };
    if old.spec.approved || !plan.spec.approved {
        return Ok(Admitted("unchanged"));
    }
    let namespace = namespace_of(cx, &plan.metadata);
    if cx.settings.exempts_namespace(namespace) {
        return Ok(Admitted("exempt"));
    }
    let what = said(cx, &plan.metadata.said_name());
    let Some(group) = group::active(&cx.lookups, namespace)? else { return Ok(Admitted("no-operator-group")) };
    subscription::check_guard(cx, &format!("approve {what}"), &group)?;
    let mut admitted = Admitted("unbounded");
    let mut messages = Vec::new();
    let mut lines = Vec::new();
    for Install { operator, manifests } in by_operator(cx, &what, &plan) {
        let Bounds::Bounded(group, boundaries) = boundary::of_operator(cx, namespace, &operator)? else { continue };
        admitted = Admitted("bounded");
        match judge_operator(cx, &what, &group, &boundaries, &manifests) {
            Ok(()) => {}
            Err(Refusal::Exceeds { message, lines: more }) => {
                messages.push(message);
                lines.extend(more);
            }
            Err(other) => return Err(other),
        }
    }
    if messages.is_empty() { Ok(admitted) } else { Err(Refusal::Exceeds { message: message::join(messages), lines }) }
}

/// The manifests that come for one operator.
struct Install {
    operator: String,
    manifests: Vec<String>,
}

/// The manifests of the plan, inline or unpacked, by the operator they belong to.
fn by_operator(cx: &Context<'_>, what: &str, plan: &InstallPlan<'_>) -> Vec<Install> {
    let mut installs: Vec<Install> = Vec::new();
    let mut bundles = Vec::new();
    for step in plan.status.plan.iter().filter(|step| is_judged(&step.resource.group, &step.resource.kind)) {
        let found = match reference(&step.resource.manifest) {
            None => vec![step.resource.manifest.to_string()],
            // Roles that OLM makes from a CSV refer to its bundle too: once read, the CSV has been judged whole.
            Some(bundle) if bundles.contains(&bundle) => continue,
            Some(bundle) => {
                let found = unpacked(cx, what, &step.resource, &bundle, bundles.len());
                bundles.push(bundle);
                found
            }
        };
        match installs.iter_mut().find(|install| install.operator == *step.resolving) {
            Some(install) => install.manifests.extend(found),
            None => installs.push(Install { operator: step.resolving.to_string(), manifests: found }),
        }
    }
    installs
}

fn is_judged(group: &str, kind: &str) -> bool {
    match group {
        "operators.coreos.com" => kind == "ClusterServiceVersion",
        RBAC => matches!(kind, "Role" | "ClusterRole" | "RoleBinding" | "ClusterRoleBinding"),
        _ => false,
    }
}

fn reference(manifest: &str) -> Option<(String, String)> {
    let reference: BundleReference<'_> = serde_json::from_str(manifest).ok()?;
    let complete = reference.kind == "ConfigMap" && !reference.name.is_empty() && !reference.namespace.is_empty();
    (complete && !reference.catalog_source.is_empty())
        .then(|| (reference.namespace.to_string(), reference.name.to_string()))
}

/// The judged manifests of an unpacked bundle. If it cannot be read that is a warning: the CSV itself is judged later.
fn unpacked(
    cx: &Context<'_>,
    what: &str,
    step: &StepResource<'_>,
    (namespace, name): &(String, String),
    read: usize,
) -> Vec<String> {
    let failed = |reason: &str| {
        cx.warn(&format!(
            "{what}: step {} {} is in ConfigMap {namespace}/{name}, {reason}. It was not judged now; the \
             ClusterServiceVersion is judged when OLM creates it.",
            step.kind, step.name
        ));
        Vec::new()
    };
    if read >= MAX_BUNDLES {
        return failed("and one approval looks into 16 bundles only");
    }
    let answer = match cx.lookups.get(CONFIG_MAPS, Some(namespace), name) {
        Ok(Some(answer)) => answer,
        Ok(None) => return failed("which is gone"),
        Err(error) => return failed(&format!("which could not be read ({})", error.reason)),
    };
    match bundle::manifests(&answer) {
        Ok(manifests) => manifests.into_iter().filter(|manifest| is_judged_manifest(manifest)).collect(),
        Err(reason) => failed(&format!("which cannot be understood ({reason})")),
    }
}

object! {
    #[derive(Debug, Default)]
    struct Kind<'a> {
        api_version: Text<'a> = "apiVersion",
        kind: Text<'a> = "kind",
    }
}

fn is_judged_manifest(manifest: &str) -> bool {
    serde_json::from_str::<Kind<'_>>(manifest).is_ok_and(|object| {
        let group = object.api_version.split_once('/').map_or("", |(group, _)| group);
        is_judged(group, &object.kind)
    })
}

/// Judges everything that comes for one operator as one request.
fn judge_operator(
    cx: &Context<'_>,
    what: &str,
    group: &Group,
    boundaries: &[Boundary],
    manifests: &[String],
) -> Result<(), Refusal> {
    let targets = group.targets(&cx.lookups)?;
    let objects = manifests.iter().map(|text| read_step(what, text)).collect::<Result<Vec<Manifest<'_>>, _>>()?;
    for object in &objects {
        if let Some(key) = role_key(object, &group.namespace) {
            cx.lookups.assume_role(key, object.rules.iter().cloned().map(Rule::into_owned).collect());
        }
    }
    let mut csvs = Vec::new();
    for (object, text) in objects.iter().zip(manifests) {
        if object.kind == "ClusterServiceVersion" {
            csvs.push(read_step::<ClusterServiceVersion<'_>>(what, text)?);
        }
    }
    let mut demands = Vec::new();
    let mut names = Vec::new();
    for object in &objects {
        demands.extend(of_rbac(cx, what, object, &group.namespace)?);
    }
    for csv in &csvs {
        names.push(csv.metadata.said_name());
        let operator = Operator { csv, namespace: &group.namespace, targets: &targets, may_replace: true };
        demands.extend(csv::weigh(cx, &operator, boundaries)?.0);
    }
    let brings = if names.is_empty() { String::new() } else { format!(" (brings {})", names.join(", ")) };
    let manifest = format!("CSV.yaml{}", targets.arguments(&group.namespace));
    let judged = Judged { what: format!("{what}{brings}"), demands, manifest };
    let grants = grants(cx, boundaries, &judged.demands)?;
    bounded(cx, &judged, boundaries, &grants, cx.settings.operator_groups.escalation)
}

fn read_step<'a, T: Deserialize<'a>>(what: &str, text: &'a str) -> Result<T, Refusal> {
    json::read(text, "").map_err(|error| Refusal::Unreadable { what: format!("a step of {what}"), error })
}

fn role_key(object: &Manifest<'_>, plan_namespace: &str) -> Option<RoleKey> {
    let name = object.metadata.name.to_string();
    match object.kind.as_str() {
        "ClusterRole" => Some(RoleKey { namespace: None, name }),
        "Role" => Some(RoleKey { namespace: Some(namespace(object, plan_namespace)), name }),
        _ => None,
    }
}

fn namespace(object: &Manifest<'_>, plan_namespace: &str) -> String {
    if object.metadata.namespace.is_empty() { plan_namespace.to_owned() } else { object.metadata.namespace.to_string() }
}

/// What a role or binding of the plan asks for.
fn of_rbac<'r>(
    cx: &Context<'_>,
    what: &str,
    object: &'r Manifest<'r>,
    plan_namespace: &str,
) -> Result<Option<Demand<'r>>, Refusal> {
    let scope = match object.kind.as_str() {
        "Role" | "RoleBinding" => Scope::Namespace(namespace(object, plan_namespace)),
        "ClusterRole" | "ClusterRoleBinding" => Scope::Cluster,
        _ => return Ok(None),
    };
    if let Some(key) = role_key(object, plan_namespace) {
        let honored = vec![Rule::on(&[RBAC], &[key.resource()], &["escalate"])];
        return Ok(Some(Demand { scope, rules: DemandedRules::Declared(&object.rules), honored, why: None }));
    }
    let key = object.role_ref.key(scope.namespace());
    let rules = key.as_ref().map(|key| cx.lookups.role(key)).transpose()?.flatten();
    let (Some(key), Some(rules)) = (key, rules) else {
        let message = format!(
            "{what} brings {} {}, which refers to {} {}: that does not exist and is not in the plan, so nobody can \
             tell what it would give",
            object.kind, object.metadata.name, object.role_ref.kind, object.role_ref.name
        );
        return Err(Refusal::Exceeds { lines: vec![message.clone()], message });
    };
    let why = Some(format!("{} {} binds {key}", object.kind, object.metadata.name));
    let honored = demand::bind(&key);
    Ok(Some(Demand { scope, rules: DemandedRules::Shared(rules), honored, why }))
}

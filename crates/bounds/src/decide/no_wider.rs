//! Whether an upgrade requests more than the installed version holds. That is measured by what the installed version
//! declares and implies, not by what its accounts happen to be bound to.

use std::collections::BTreeSet;

use crate::cluster::{CLUSTER_SERVICE_VERSIONS, Get};
use crate::decide::authority::{Authority, Shortfall};
use crate::decide::borrowed::{self, Operator};
use crate::decide::context::Context;
use crate::decide::demand::{self, Demand};
use crate::decide::groups;
use crate::decide::holders::{Holder, Reach, find};
use crate::decide::lookups::parse;
use crate::decide::message::{self, shell};
use crate::decide::pieces::Brought;
use crate::decide::plan::Plan;
use crate::decide::verdict::{Refusal, Refused};
use crate::olm::csv::ClusterServiceVersion;
use crate::olm::group::Targets;
use crate::olm::plan::Step;
use crate::rbac::grant::Grant;
use crate::rbac::rule::Rule;
use crate::rbac::subject::Identity;
use crate::read::object::object;
use crate::read::order::ordered;
use crate::read::text::Text;
use crate::settings::Escalation;

/// Kinds that any operator brings. They never count as new; their content is judged instead.
const OF_ANY_OPERATOR: &[&str] = &[
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterServiceVersion",
    "CustomResourceDefinition",
    "Role",
    "RoleBinding",
    "ServiceAccount",
];

/// A plan, and everything that it brings.
#[derive(Debug, Clone, Copy)]
pub struct Bringing<'p> {
    /// The plan as shown to a person.
    pub what: &'p str,
    /// The steps of the plan.
    pub steps: &'p [Step<'p>],
    /// The objects in these steps.
    pub brought: &'p Brought,
}

/// An upgrade, according to a Subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upgrade {
    /// The installed ClusterServiceVersion; empty for a first install.
    pub from: String,
    /// The ClusterServiceVersion that replaces it.
    pub to: String,
}

object! {
    #[derive(Debug, Default)]
    struct Serving<'a> {
        spec: ServingSpec<'a> = "spec",
    }
}

object! {
    #[derive(Debug, Default)]
    struct ServingSpec<'a> {
        webhooks: Vec<Webhook<'a>> = "webhookdefinitions",
        services: Services<'a> = "apiservicedefinitions",
    }
}

object! {
    #[derive(Debug, Default)]
    struct Services<'a> {
        owned: Vec<Service<'a>> = "owned",
    }
}

object! {
    #[derive(Debug, Default, PartialEq, Eq)]
    struct Service<'a> {
        group: Text<'a> = "group",
        version: Text<'a> = "version",
    }
}

object! {
    #[derive(Debug, Default, PartialEq, Eq)]
    struct Webhook<'a> {
        of: Text<'a> = "type",
        name: Text<'a> = "generateName",
        rules: Vec<Intercepted<'a>> = "rules",
    }
}

object! {
    /// What a webhook intercepts.
    #[derive(Debug, Default, PartialEq, Eq)]
    struct Intercepted<'a> {
        api_groups: Vec<Text<'a>> = "apiGroups",
        api_versions: Vec<Text<'a>> = "apiVersions",
        operations: Vec<Text<'a>> = "operations",
        resources: Vec<Text<'a>> = "resources",
        scope: Text<'a> = "scope",
    }
}

/// Refuses a plan that brings anything new: an operator that is not an upgrade, rights that the installed version does
/// not hold, or kinds that it did not bring. `before` are the plans that installed it, where they still exist.
pub fn no_wider(
    cx: &Context<'_>,
    namespace: &str,
    now: &Bringing<'_>,
    before: &[Bringing<'_>],
    upgrades: &[Upgrade],
) -> Result<(), Refusal> {
    let Some(group) = groups::active(&cx.lookups, namespace)? else {
        return Err(wait(format!("{}: namespace {namespace} has no OperatorGroup", now.what)));
    };
    let targets = groups::targets(&group, &cx.lookups)?;
    let manifests = now.brought.read(now.what)?;
    let plan = Plan { what: now.what, namespace, pieces: &now.brought.pieces, manifests: &manifests };
    let mut messages = Vec::new();
    for operator in plan.operators()? {
        let upgrade = upgrades.iter().find(|upgrade| upgrade.to == operator && !upgrade.from.is_empty());
        let Some(upgrade) = upgrade else {
            messages.push(first_install(now.what, operator, namespace));
            continue;
        };
        let get = Get { resource: CLUSTER_SERVICE_VERSIONS, namespace: Some(namespace), name: &upgrade.from };
        let Some(answer) = cx.lookups.get(get.resource, get.namespace, get.name)? else {
            messages.push(first_install(now.what, operator, namespace));
            continue;
        };
        let csv: ClusterServiceVersion<'_> = parse(&answer, &get)?;
        if csv.copied_from(namespace).is_some() {
            messages.push(first_install(now.what, operator, namespace));
            continue;
        }
        let serving: Serving<'_> = parse(&answer, &get)?;
        let installed = Installed { csv: &csv, serving, before, targets: &targets };
        messages.extend(installed.exceeded_by(cx, &plan, now.steps, operator)?);
    }
    if messages.is_empty() { Ok(()) } else { Err(wait(message::join(messages))) }
}

fn wait(message: String) -> Refusal {
    Refused::Exceeds { lines: vec![message.clone()], message }.into()
}

fn first_install(what: &str, operator: &str, namespace: &str) -> String {
    let text = format!(
        "{what} brings {operator}, which is no upgrade of anything that is installed in {namespace}. {}",
        by_hand(what)
    );
    message::clean(&text)
}

/// The command for a person who wants to approve it nevertheless.
fn by_hand(what: &str) -> String {
    let (namespace, name) = what.rsplit(' ').next().and_then(|place| place.split_once('/')).unwrap_or(("", what));
    format!(
        "Approve it by hand with: kubectl patch installplan {} --namespace {} --type merge --patch \
         '{{\"spec\":{{\"approved\":true}}}}'",
        shell(name),
        shell(namespace)
    )
}

/// The installed version, and everything known about it.
struct Installed<'i> {
    csv: &'i ClusterServiceVersion<'i>,
    serving: Serving<'i>,
    before: &'i [Bringing<'i>],
    targets: &'i Targets,
}

impl Installed<'_> {
    /// What an operator of the plan requests beyond what this version holds, as shown to a person.
    fn exceeded_by(
        &self,
        cx: &Context<'_>,
        plan: &Plan<'_>,
        steps: &[Step<'_>],
        operator: &str,
    ) -> Result<Option<String>, Refusal> {
        let csvs = plan.csvs(operator)?;
        let everything = Rule::everything();
        let (mut demands, mut news) = plan.rbac(cx, operator, &everything)?;
        for csv in &csvs {
            demands.extend(demand::of_csv(&cx.lookups, csv, plan.namespace, self.targets)?);
            demands.extend(self.borrowed(cx, csv, plan.namespace)?);
        }
        for piece in plan.pieces.iter().filter(|piece| piece.operator == operator) {
            if piece.kind == "ClusterServiceVersion" {
                news.extend(self.intercepts(&piece.read_as(plan.what)?));
            }
        }
        news.extend(self.kinds(steps, operator, &csvs));
        let grant = self.grant(cx, plan.namespace)?;
        let name = self.csv.metadata.name.as_str();
        let identity = Identity::user_in(name, Vec::new());
        let authority = Authority { identity: &identity, grant: &grant };
        let Shortfall { excess, mut notes } = authority.shortfall(cx, &demands, Escalation::Ignore)?;
        if excess.is_empty() && news.is_empty() {
            return Ok(None);
        }
        notes.extend(news);
        let heading =
            format!("{} brings {operator}, which asks for more than the installed version {name} holds", plan.what);
        Ok(Some(message::excess(&heading, &excess, &notes, &[&by_hand(plan.what)])))
    }

    /// What it declares and implies, and the roles and bindings that came with it.
    fn grant(&self, cx: &Context<'_>, namespace: &str) -> Result<Grant, Refusal> {
        let everything = Rule::everything();
        let mut roles = Vec::new();
        let mut hold = |demands: &[Demand<'_>]| {
            for demand in demands {
                let rules: Vec<Rule<'static>> = demand.rules.iter().cloned().map(Rule::into_owned).collect();
                roles.extend(demand.scopes.iter().map(|scope| (scope.clone(), rules.clone().into())));
            }
        };
        hold(&demand::of_csv(&cx.lookups, self.csv, namespace, self.targets)?);
        for before in self.before {
            let manifests = before.brought.read(before.what)?;
            let plan = Plan { what: before.what, namespace, pieces: &before.brought.pieces, manifests: &manifests };
            hold(&plan.rbac(cx, &self.csv.metadata.name, &everything)?.0);
        }
        Ok(Grant::new(roles))
    }

    /// What is held by accounts that only the new version runs as.
    fn borrowed(
        &self,
        cx: &Context<'_>,
        csv: &ClusterServiceVersion<'_>,
        namespace: &str,
    ) -> Result<Vec<Demand<'static>>, Refusal> {
        let operator = Operator { csv, before: None, namespace, targets: self.targets, may_replace: true };
        let known = self.csv.accounts();
        let is_new = |account: &Identity| account.as_service_account().is_none_or(|(_, name)| !known.contains(name));
        let mut accounts: Vec<Holder> = operator.accounts().into_iter().filter(is_new).map(Holder::new).collect();
        if accounts.is_empty() {
            return Ok(Vec::new());
        }
        find(&cx.lookups, &mut accounts, Reach::Everywhere)?;
        borrowed::demands(cx, &operator, &accounts)
    }

    /// Webhooks and API services that the installed version does not have.
    fn intercepts(&self, new: &Serving<'_>) -> Vec<String> {
        let known = &self.serving.spec;
        let hooks = new.spec.webhooks.iter().filter(|hook| {
            let like = || known.webhooks.iter().filter(|other| other.of == hook.of);
            let is_known = |rule: &Intercepted<'_>| like().any(|other| other.rules.contains(rule));
            like().next().is_none() || !hook.rules.iter().all(is_known)
        });
        let hooks =
            hooks.map(|hook| format!("its {} {} intercepts what the installed version does not", hook.of, hook.name));
        let services = new.spec.services.owned.iter().filter(|service| !known.services.owned.contains(service));
        let services = services.map(|service| format!("it serves a new API, {}.{}", service.version, service.group));
        hooks.chain(services).collect()
    }

    /// Definitions and kinds that the installed version did not bring.
    fn kinds(&self, steps: &[Step<'_>], operator: &str, csvs: &[ClusterServiceVersion<'_>]) -> Vec<String> {
        let name = self.csv.metadata.name.as_str();
        let before = || self.before.iter().flat_map(|before| before.steps).filter(|step| step.resolving == *name);
        let ours = || steps.iter().filter(|step| step.resolving == *operator).map(|step| &step.resource);
        let is_definition = |kind: &str| kind == "CustomResourceDefinition";
        let mut definitions: BTreeSet<&str> = csvs.iter().flat_map(ClusterServiceVersion::definitions).collect();
        definitions.extend(ours().filter(|new| is_definition(&new.kind)).map(|new| new.name.as_str()));
        let known = self.csv.definitions();
        let mut news: Vec<String> = definitions
            .into_iter()
            .filter(|new| {
                !known.contains(new)
                    && !before().any(|old| is_definition(&old.resource.kind) && old.resource.name == **new)
            })
            .map(|new| format!("it brings a new definition, {new}"))
            .collect();
        let brought = |new: &str| before().any(|old| old.resource.kind == *new);
        let others = ordered(ours().map(|new| new.kind.as_str()));
        let others = others.into_iter().filter(|kind| !OF_ANY_OPERATOR.contains(kind) && !brought(kind));
        news.extend(others.map(|kind| {
            let gone = if before().next().is_some() { "" } else { ", as far as is known: its InstallPlan is gone" };
            format!("it brings a {kind}, and the installed version brought none{gone}")
        }));
        news
    }
}

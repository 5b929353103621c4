//! What it takes to install what is installed, by `derive`, and what is borrowed besides.

use std::collections::BTreeMap;

use bounds::decide::Lookups;
use bounds::olm::Targets;
use serde_json::Value;

use crate::derive::bundle::{Bundle, Object};
use crate::derive::need::{Needs, Origin};
use crate::derive::v1::Sender;
use crate::derive::{self, DeriveError, Installer, v0, v1};

use super::extension::Extension;
use super::operator::Operator;
use super::text;

/// What the account of an OperatorGroup needs for these operators.
pub(super) fn of_operators(
    lookups: &Lookups<'_>,
    operators: &[&Operator],
    namespace: &str,
    targets: &Targets,
) -> Result<Needs, DeriveError> {
    let csvs = operators.iter().map(|operator| Object::unwritten(operator.csv.clone())).collect();
    let group = v0::Group { namespace: namespace.to_owned(), targets: targets.clone() };
    let bundle = Bundle { csvs, ..Bundle::default() };
    let mut needs = derive::needs(&bundle, &Installer::Group(group), lookups)?;
    for operator in operators {
        for (scope, rule, why) in operator.borrowed() {
            needs.add(scope, rule.clone(), borrowed(why));
        }
    }
    Ok(needs)
}

/// What a second account needs that only narrows: exactly what the operator holds.
pub(super) fn of_holdings(operator: &Operator) -> Needs {
    let mut needs = Needs::default();
    for holding in &operator.audited.holds {
        let origin = match holding.origin {
            super::Origin::Borrowed => borrowed(&holding.why),
            _ => Origin::new(holding.why.clone()),
        };
        for right in holding.rights() {
            needs.add(&right.scope, right.rule, origin.clone());
        }
    }
    needs
}

fn borrowed(why: &str) -> Origin {
    Origin::new(format!("BORROWED: {why}"))
}

/// What the identity of an extension needs for what is installed, namespace by namespace; none where that is not known.
pub(super) fn of_extension(lookups: &Lookups<'_>, extension: &Extension) -> Result<Option<Needs>, DeriveError> {
    let Some(installed) = extension.installed.as_ref().filter(|installed| installed.partial.is_none()) else {
        return Ok(None);
    };
    let (mut wide, mut by_namespace) = (Vec::new(), BTreeMap::<&str, Vec<&Value>>::new());
    for object in &installed.objects {
        match text(object, "/metadata/namespace") {
            "" => wide.push(object),
            namespace => by_namespace.entry(namespace).or_default().push(object),
        }
    }
    by_namespace.entry(&extension.namespace).or_default();
    let sender = if extension.is_account_used { Sender::Identity } else { Sender::Controller };
    let mut needs = Needs::default();
    for (namespace, objects) in by_namespace {
        // Bindings of a namespace may refer to ClusterRoles; what is needed twice is granted once.
        let objects = wide.iter().copied().chain(objects).map(|object| Object::unwritten(object.clone()));
        let bundle = Bundle { others: objects.collect(), ..Bundle::default() };
        let installer = v1::Extension {
            name: extension.audited.name.name.clone(),
            namespace: Some(namespace.to_owned()),
            targets: Targets::All,
            sender,
        };
        needs.0.extend(derive::needs(&bundle, &Installer::Extension(installer), lookups)?.0);
    }
    for holding in extension.audited.holds.iter().filter(|holding| holding.origin == super::Origin::Borrowed) {
        for right in holding.rights() {
            needs.add(&right.scope, right.rule, borrowed(&holding.why));
        }
    }
    Ok(Some(needs))
}

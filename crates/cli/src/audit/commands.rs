//! The commands that let somebody read what could not be read.

use std::collections::BTreeMap;

use bounds::decide::message::shell;
use bounds::rbac::Identity;

use super::seen::Unread;

/// What the role and the binding are called that the commands make.
const NAME: &str = "operator-bounds-audit";

/// Commands that grant what is missing, to be run by somebody who may: one role and one binding for the cluster, and for each
/// namespace. They add to what is there, so that they can be run again.
#[must_use]
pub fn grant(unread: &[Unread], user: Option<&str>) -> Vec<String> {
    let mut places: BTreeMap<Option<&str>, Vec<String>> = BTreeMap::new();
    for unread in unread.iter().filter(|unread| unread.is_forbidden) {
        let resources = places.entry(unread.namespace.as_deref()).or_default();
        if !resources.contains(&unread.qualified()) {
            resources.push(unread.qualified());
        }
    }
    let subject = subject(user);
    let mut commands = Vec::new();
    for (namespace, resources) in places {
        let (kind, within) = match namespace {
            None => ("clusterrole", String::new()),
            Some(namespace) => ("role", format!(" --namespace={}", shell(namespace))),
        };
        let add = "--dry-run=client -o yaml | kubectl auth reconcile -f -";
        commands
            .push(format!("kubectl create {kind} {NAME}{within} --verb=list --resource={} {add}", resources.join(",")));
        commands.push(format!("kubectl create {kind}binding {NAME}{within} --{kind}={NAME} {subject} {add}"));
    }
    commands
}

fn subject(user: Option<&str>) -> String {
    let Some(user) = user else { return "--user=NAME".to_owned() };
    match Identity::user_in(user, Vec::new()).as_service_account() {
        Some((namespace, name)) => format!("--serviceaccount={}", shell(&format!("{namespace}:{name}"))),
        None => format!("--user={}", shell(user)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unread(group: &'static str, resource: &str, namespace: Option<&str>) -> Unread {
        Unread {
            kind: "X",
            group,
            resource: resource.to_owned(),
            namespace: namespace.map(str::to_owned),
            reason: String::new(),
            meaning: "",
            is_forbidden: true,
        }
    }

    #[test]
    fn one_role_for_the_cluster_and_one_for_each_namespace() {
        let all = [
            unread("", "secrets", Some("olmv1-system")),
            unread("", "namespaces", None),
            unread("rbac.authorization.k8s.io", "roles", None),
            Unread { is_forbidden: false, ..unread("", "pods", None) },
        ];
        let user = Some("system:serviceaccount:auditors:auditor");
        let add = "--dry-run=client -o yaml | kubectl auth reconcile -f -";
        assert_eq!(
            grant(&all, user),
            [
                format!(
                    "kubectl create clusterrole {NAME} --verb=list --resource=namespaces,roles.rbac.authorization.k8s.io {add}"
                ),
                format!(
                    "kubectl create clusterrolebinding {NAME} --clusterrole={NAME} --serviceaccount=auditors:auditor {add}"
                ),
                format!("kubectl create role {NAME} --namespace=olmv1-system --verb=list --resource=secrets {add}"),
                format!(
                    "kubectl create rolebinding {NAME} --namespace=olmv1-system --role={NAME} --serviceaccount=auditors:auditor {add}"
                ),
            ]
        );
        assert!(grant(&all[1..2], Some("jane doe"))[1].contains("--user='jane doe'"));
        assert_eq!(grant(&[], None), [""; 0]);
    }
}

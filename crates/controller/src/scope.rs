//! Where the controller may act: nowhere until it is told.

use kube::ResourceExt;
use kube::core::{Expression, Selector, SelectorExt};

use crate::stores::Stores;

/// The namespaces that are the controller's. In all others OLM installs.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// By name; `*` is all of them.
    pub namespaces: Vec<String>,
    /// By the labels of the Namespace, which administrators set and tenants do not.
    pub selector: Option<Selector>,
}

impl Scope {
    /// Whether everything in this namespace is the controller's to install.
    #[must_use]
    pub fn contains(&self, stores: &Stores, namespace: &str) -> bool {
        let named = self.namespaces.iter().any(|name| name == "*" || name == namespace);
        named
            || self.selector.as_ref().is_some_and(|selector| {
                stores.namespace(namespace).is_some_and(|object| selector.matches(object.labels()))
            })
    }
}

/// Reads `key=value,key!=value,key,!key`: all of them must hold. An empty one would select everything by accident.
pub fn parse_selector(text: &str) -> Result<Selector, String> {
    let mut selector = Selector::default();
    for part in text.split(',').map(str::trim) {
        let expression = match (part.split_once("!="), part.split_once('='), part.strip_prefix('!')) {
            (Some((key, value)), ..) => Expression::NotEqual(word(key)?, value.trim().to_owned()),
            (_, Some((key, value)), _) => {
                Expression::Equal(word(key)?, value.trim_start_matches('=').trim().to_owned())
            }
            (.., Some(key)) => Expression::DoesNotExist(word(key)?),
            _ => Expression::Exists(word(part)?),
        };
        selector.extend([expression]);
    }
    Ok(selector)
}

fn word(key: &str) -> Result<String, String> {
    let key = key.trim();
    if key.is_empty() || key.contains(['(', ')', ' ', '!']) {
        return Err(format!("{key:?} is no label: write key=value, key!=value, key or !key, separated by commas"));
    }
    Ok(key.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_selector_reads_as_for_kubectl_and_never_selects_everything_by_accident() {
        let selects = |text: &str, labels: &[(&str, &str)]| {
            let labels: BTreeMap<String, String> =
                labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            parse_selector(text).unwrap().matches(&labels)
        };
        assert!(selects("team=a, !legacy", &[("team", "a")]));
        assert!(selects("team==a", &[("team", "a")]));
        assert!(!selects("team=a,!legacy", &[("team", "a"), ("legacy", "")]));
        assert!(selects("team!=b,tier", &[("tier", "1")]));
        assert!(!selects("tier", &[]));
        for broken in ["", ",", "a in (b)", "=x", "!"] {
            assert!(parse_selector(broken).is_err(), "{broken}");
        }
    }
}

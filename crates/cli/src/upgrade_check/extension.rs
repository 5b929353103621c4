//! A ClusterExtension as it is written: where its field is, or would be.

use bounds::olm::SYNTHETIC_ACCOUNT;

use crate::syntax::{Content, Node};

/// The API group of ClusterExtensions.
const GROUP: &str = "olm.operatorframework.io/";

/// A ClusterExtension of a document.
#[derive(Debug)]
pub struct Written<'n> {
    /// Its name; `?` where it has none, as a patch may.
    pub name: String,
    /// `v1` or `v1alpha1`.
    pub version: String,
    /// The namespace it installs into.
    pub namespace: String,
    /// The name of the account, if the field says one.
    pub account: Option<String>,
    /// The mapping that the field is in or belongs into: `spec`, or `spec.install` in `v1alpha1`.
    pub place: Place<'n>,
    /// Where the extension begins.
    pub node: &'n Node,
    /// Why its text must not be edited.
    pub untouchable: Option<String>,
}

impl Written<'_> {
    /// Whether it names its synthetic user, by the special name for that.
    #[must_use]
    pub fn is_synthetic(&self) -> bool {
        self.account.as_deref() == Some(SYNTHETIC_ACCOUNT)
    }
}

/// The mapping of the field.
#[derive(Debug)]
pub struct Place<'n> {
    /// The way to the field: `spec.serviceAccount`.
    pub field: &'static str,
    /// The mapping.
    pub mapping: Option<&'n Node>,
    /// The field, key and value.
    pub entry: Option<&'n (Node, Node)>,
    /// The entry of the namespace: a new field goes behind it.
    pub namespace: Option<&'n (Node, Node)>,
}

/// The ClusterExtensions of a document, in Lists too.
#[must_use]
pub fn all(document: &Node) -> Vec<Written<'_>> {
    let mut found = Vec::new();
    collect(document, None, &mut found);
    found
}

fn collect<'n>(node: &'n Node, above: Option<&str>, found: &mut Vec<Written<'n>>) {
    let text = |key: &str| node.get(key).and_then(Node::text).unwrap_or_default();
    let reason =
        if node.is_anchored { Some("it has an anchor, so changing it here would change it elsewhere") } else { above };
    let kind = text("kind");
    if kind == "ClusterExtension" && text("apiVersion").starts_with(GROUP) {
        found.push(written(node, reason));
    } else if kind.ends_with("List") {
        let items = node.get("items");
        let reason =
            items.filter(|items| items.is_anchored).map_or(reason, |_| Some("the list it is in has an anchor"));
        for item in items.into_iter().flat_map(Node::items) {
            // The API server leaves the kind out of the items of a typed list.
            if kind == "ClusterExtensionList" && item.get("kind").is_none() {
                found.push(written(item, reason));
            } else {
                collect(item, reason, found);
            }
        }
    }
}

fn written<'n>(node: &'n Node, untouchable: Option<&str>) -> Written<'n> {
    let spec = node.get("spec");
    let install = spec.and_then(|spec| spec.get("install"));
    let api_version = node.get("apiVersion").and_then(Node::text).unwrap_or("olm.operatorframework.io/v1");
    let version = api_version.rsplit('/').next().unwrap_or_default().to_owned();
    // v1alpha1 of 0.16 has the field in `spec.install`; everything else in `spec`.
    let (field, mapping) = match install.filter(|_| version == "v1alpha1") {
        Some(install) if spec.is_none_or(|spec| spec.get("serviceAccount").is_none()) => {
            ("spec.install.serviceAccount", Some(install))
        }
        _ => ("spec.serviceAccount", spec),
    };
    let entry = mapping.and_then(|mapping| mapping.entry("serviceAccount"));
    let namespace =
        mapping.and_then(|mapping| mapping.entry("namespace").or_else(|| mapping.entry("installNamespace")));
    let text = |node: Option<&Node>| node.and_then(Node::text).unwrap_or_default().to_owned();
    let account = text(entry.and_then(|(_, value)| value.get("name")));
    let path = [spec, mapping];
    let anchored = path.into_iter().flatten().any(|node| node.is_anchored);
    let reason = untouchable.map(str::to_owned);
    let reason = reason.or_else(|| {
        anchored.then(|| "its spec has an anchor, so changing it here would change it elsewhere".to_owned())
    });
    Written {
        name: node.at(&["metadata", "name"]).and_then(Node::text).unwrap_or("?").to_owned(),
        version,
        namespace: text(namespace.map(|(_, value)| value)),
        account: Some(account).filter(|name| !name.is_empty()),
        place: Place { field, mapping, entry, namespace },
        node,
        untouchable: reason.or_else(|| borrowed(spec, mapping)),
    }
}

/// A spec that is an alias, or merges one, cannot be edited here.
fn borrowed(spec: Option<&Node>, mapping: Option<&Node>) -> Option<String> {
    let is_alias = |node: Option<&Node>| node.is_some_and(|node| matches!(node.content, Content::Alias));
    let merges = |node: Option<&Node>| node.is_some_and(|node| node.get("<<").is_some());
    let borrows = is_alias(spec) || is_alias(mapping) || merges(spec) || merges(mapping);
    borrows.then(|| "its spec is or merges an alias of something defined elsewhere".to_owned())
}

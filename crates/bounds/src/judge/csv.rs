//! ClusterServiceVersion: bounded by the active group of its namespace.

use super::review::Review;
use crate::cluster::{CLUSTER_SERVICE_VERSIONS, Get};
use crate::decide::borrowed::Operator;
use crate::decide::boundary::{self, Bounds};
use crate::decide::excess::{Judged, bounded};
use crate::decide::groups;
use crate::decide::lookups::parse;
use crate::decide::message::shell;
use crate::decide::verdict::{Admitted, Refusal};
use crate::decide::weigh::{Weighed, weigh};
use crate::olm::csv::ClusterServiceVersion;
use crate::olm::group::Group;

use super::{Verdict, namespace_of, read_new, read_old};

pub(super) fn judge(cx: &Review<'_>) -> Verdict {
    let csv: ClusterServiceVersion<'_> = read_new(cx)?;
    let namespace = namespace_of(cx, &csv.metadata);
    if cx.settings.exempts_namespace(namespace) {
        return Ok(Admitted("exempt"));
    }
    let claim = csv.copied_from(namespace);
    let old: Option<ClusterServiceVersion<'_>> = read_old(cx)?;
    if old.as_ref().is_some_and(|old| old.copied_from(namespace) == claim && old.asks_the_same(&csv)) {
        return Ok(Admitted("unchanged"));
    }
    if let Some(original) = claim
        && (cx.is_by_olm_v0() || is_true_copy(cx, &csv, original, namespace)?)
    {
        return Ok(Admitted("copy"));
    }
    // An object that merely claims to be a copy, or was one, has brought nothing of its own.
    let before = old.as_ref().filter(|old| old.copied_from(namespace).is_none() && claim.is_none());
    install(cx, &csv, before, namespace, claim.is_none())
}

/// Judges what the ClusterServiceVersion would bring into its namespace.
fn install(
    cx: &Review<'_>,
    csv: &ClusterServiceVersion<'_>,
    before: Option<&ClusterServiceVersion<'_>>,
    namespace: &str,
    may_replace: bool,
) -> Verdict {
    match boundary::of_operator(cx, namespace, &[&csv.metadata.display_name(), &csv.spec.replaces])? {
        Bounds::NoGroup => Ok(Admitted("no-operator-group")),
        Bounds::Unbounded(_) => Ok(Admitted("unbounded")),
        Bounds::Bounded(group, boundaries) => {
            let targets = groups::targets(&group, &cx.lookups)?;
            let operator = Operator { csv, before, namespace, targets: &targets, may_replace };
            let Weighed { demands, limits } = weigh(cx, &operator, &boundaries)?;
            let judged = Judged {
                what: format!("ClusterServiceVersion {namespace}/{}", csv.metadata.display_name()),
                demands,
                manifest: format!(
                    "{}{}",
                    shell(&format!("{}.yaml", csv.metadata.display_name())),
                    groups::arguments(&targets, namespace)
                ),
                notes: lag(&group).into_iter().collect(),
            };
            bounded(cx, &judged, &limits, cx.settings.operator_groups.escalation)?;
            Ok(Admitted("bounded"))
        }
    }
}

/// Whether the original exists where the copy says, with the same permissions. Anyone can forge a label.
fn is_true_copy(
    cx: &Review<'_>,
    copy: &ClusterServiceVersion<'_>,
    original: &str,
    namespace: &str,
) -> Result<bool, Refusal> {
    if original == namespace {
        return Ok(false);
    }
    let get = Get { resource: CLUSTER_SERVICE_VERSIONS, namespace: Some(original), name: &copy.metadata.name };
    let Some(answer) = cx.lookups.get(get.resource, get.namespace, get.name)? else { return Ok(false) };
    let found: ClusterServiceVersion<'_> = parse(&answer, &get)?;
    Ok(found.copied_from(original).is_none() && found.asks_the_same(copy))
}

/// Explains why the whole cluster is judged although the spec names namespaces.
fn lag(group: &Group) -> Option<String> {
    group.status_widens().then(|| {
        format!(
            "the status of {group} still targets all namespaces, so this was judged cluster-wide; OLM updates it by \
             itself"
        )
    })
}

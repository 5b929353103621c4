//! A boundary for everything that has none: an account for an OperatorGroup, or the identity of an extension, with exactly the
//! RBAC that `derive` finds. Every proposal is laid over what was read and judged by the policy; only what is bounded then is
//! shown to anybody.
//!
//! [`draft`] → objects, by [`parts`] → [`prove`].

mod draft;
mod parts;
mod prove;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::check::objects::Name;

use super::admin::Admins;
use super::extension::Extension;
use super::grants::Grants;
use super::judge::Judge;
use super::operator::Operator;
use super::parallel::in_parallel;
use super::seen::Unread;
use super::settings::Rules;
use draft::Drafter;

/// What came of looking for a boundary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// With this file applied, the policy calls it bounded.
    Proven {
        /// The file of the proposal.
        file: String,
        /// What would bound it.
        boundary: String,
    },
    /// Nothing can be proposed.
    Impossible(String),
}

/// A boundary that is proposed and proven.
#[derive(Debug)]
pub struct Proposal {
    /// What its file is called.
    pub file: String,
    /// What would bound: `ServiceAccount operators/operator-installer`.
    pub boundary: String,
    /// What it would bound.
    pub bounds: Vec<Name>,
    /// The objects to apply, in order.
    pub objects: Vec<Value>,
    /// The same as YAML, with comments that say where each rule comes from.
    pub yaml: String,
    /// The settings that the policy needs for it.
    pub settings: Vec<Change>,
}

/// A setting that has to be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// `operatorGroups` or `clusterExtensions`.
    pub section: &'static str,
    /// The setting.
    pub setting: &'static str,
    /// What to.
    pub to: &'static str,
    /// What it means.
    pub meaning: &'static str,
}

const CLUSTER_WRITES: Change = Change {
    section: "operatorGroups",
    setting: "clusterWrites",
    to: "warn",
    meaning: "the account may write CustomResourceDefinitions or APIServices, because the operator itself does, or because \
              OLM does so for its webhooks and API services with the account: the policy then only warns of it, for every \
              OperatorGroup",
};
const BOUND: Change = Change {
    section: "clusterExtensions",
    setting: "bound",
    to: "synthetic",
    meaning: "the policy holds every extension to its own identity, User olm:clusterextension:NAME: one that has been granted \
              nothing is refused at its next upgrade",
};

/// A proposal that is not proven yet, and whom it is for.
struct Draft {
    proposal: Proposal,
    /// The OperatorGroup as it is.
    group: Option<Value>,
    members: Members,
}

enum Members {
    /// Operators, and what would bound each.
    Operators(Vec<(usize, String)>),
    Extension(usize),
}

/// Proposes, proves, and tells each operator and extension what came of it.
pub(super) fn all(
    judge: Judge<'_>,
    unread: &[Unread],
    operators: &mut [Operator],
    extensions: &mut [Extension],
    rules: &Rules,
    admins: &Admins,
) -> Vec<Proposal> {
    let drafts = {
        let grants = Grants::new(judge.manifests(), unread);
        let mut drafter = Drafter::new(&judge, &grants, admins);
        drafter.groups(operators);
        drafter.extensions(extensions);
        drafter.finished()
    };
    let judge = judge.with(drafts.iter().flat_map(|draft| &draft.proposal.objects), unread);
    let proven = in_parallel(&drafts, |draft| {
        let judge = judge.as_ref().ok_or("what would be proposed cannot be laid over the cluster")?;
        match &draft.members {
            Members::Operators(members) => prove::group(judge, draft, members, operators, &rules.v0),
            Members::Extension(member) => prove::extension(judge, draft, &extensions[*member], &rules.v1),
        }
    });
    let mut proposals = Vec::new();
    for (draft, proven) in drafts.into_iter().zip(proven) {
        let outcome = |boundary: &str| match &proven {
            Ok(_) => Outcome::Proven { file: draft.proposal.file.clone(), boundary: boundary.to_owned() },
            Err(reason) => Outcome::Impossible(reason.clone()),
        };
        match &draft.members {
            Members::Operators(members) => {
                for (member, boundary) in members {
                    operators[*member].audited.proposal = Some(outcome(boundary));
                }
            }
            Members::Extension(member) => {
                extensions[*member].audited.proposal = Some(outcome(&draft.proposal.boundary));
            }
        }
        if let Ok(settings) = proven {
            proposals.push(Proposal { settings, ..draft.proposal });
        }
    }
    proposals
}

/// The settings with everything changed that the proposals need; none where nothing is to be changed.
pub(super) fn settings(rules: &Rules, proposals: &[Proposal]) -> Option<(Value, BTreeSet<Change>)> {
    let changes: BTreeSet<Change> = proposals.iter().flat_map(|proposal| proposal.settings.iter().copied()).collect();
    let mut value = rules.v0.value.clone();
    for Change { section, setting, to, .. } in &changes {
        if !value[*section].is_object() {
            value[*section] = json!({});
        }
        value[*section][*setting] = (*to).into();
    }
    (!changes.is_empty()).then_some((value, changes))
}

//! The life cycle of `ClusterExtension.spec.serviceAccount`: how this cluster's OLM treats it, according to the
//! settings or to the CustomResourceDefinition that the cluster serves.

use crate::cluster::EXTENSION_DEFINITION;
use crate::decide::context::Context;
use crate::decide::verdict::Refusal;
use crate::olm::definition::{self, Field};
use crate::settings::Phase;

/// What is known about the field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Life {
    /// How OLM treats it.
    pub(crate) phase: Phase,
    source: Source,
}

/// Where that information comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// The administrator set the phase.
    Settings,
    /// The administrator named a release of OLM, and this is what it shipped with.
    Release,
    /// The cluster's own CustomResourceDefinition.
    Definition(Field),
    /// There is no definition, as in a dump that does not include it.
    Nothing,
}

impl Life {
    /// What the settings say, otherwise what the definition says for this version.
    pub(crate) fn of(cx: &Context<'_>, version: &str) -> Result<Self, Refusal> {
        if let Some(phase) = cx.settings.phase() {
            let is_named = cx.settings.cluster_extensions.phase.is_some();
            return Ok(Life { phase, source: if is_named { Source::Settings } else { Source::Release } });
        }
        let (phase, source) = match field(cx, version)? {
            None => (Phase::Deprecated, Source::Nothing),
            Some(field @ Field::Required) => (Phase::Required, Source::Definition(field)),
            Some(field @ Field::Optional { .. }) => (Phase::Deprecated, Source::Definition(field)),
            Some(field @ Field::Absent) => (Phase::Removed, Source::Definition(field)),
        };
        Ok(Life { phase, source })
    }

    /// Whether OLM may act as the account that an extension names. The table of releases may be wrong about this
    /// cluster, so the definition is consulted as well.
    pub(crate) fn may_be_used(self, cx: &Context<'_>, version: &str) -> Result<bool, Refusal> {
        let field = match self.source {
            _ if matches!(self.phase, Phase::Required | Phase::Optional) => return Ok(true),
            Source::Settings => return Ok(false),
            Source::Release => field(cx, version)?,
            Source::Definition(field) => Some(field),
            Source::Nothing => None,
        };
        Ok(!matches!(field, Some(Field::Absent | Field::Optional { is_ignored: true })))
    }

    /// Whether OLM itself tells users that the field is ignored: OLM 1.11 ships a policy that warns.
    pub(crate) fn is_said_by_olm(self) -> bool {
        self.source == Source::Definition(Field::Optional { is_ignored: true })
    }

    /// Whether the field may be removed from the object: not where OLM may still use it.
    pub(crate) fn may_be_stripped(self) -> bool {
        matches!(self.phase, Phase::Deprecated | Phase::Removed)
            && self.source != Source::Definition(Field::Optional { is_ignored: false })
    }
}

/// What the cluster's own definition says about the field; `None` if there is no definition.
fn field(cx: &Context<'_>, version: &str) -> Result<Option<Field>, Refusal> {
    let answer = cx.lookups.get(EXTENSION_DEFINITION, None, definition::EXTENSIONS).map_err(|error| {
        error.because(
            "it says whether OLM uses spec.serviceAccount: let the policy server get customresourcedefinitions in \
             apiextensions.k8s.io, or say it with clusterExtensions.phase",
        )
    })?;
    Ok(answer.and_then(|answer| definition::field(std::str::from_utf8(&answer).ok()?, version)))
}

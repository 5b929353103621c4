//! The life of `ClusterExtension.spec.serviceAccount`: what this cluster's OLM makes of it, by the settings, or by the definition
//! that the cluster serves.

use crate::cluster::EXTENSION_DEFINITION;
use crate::decide::context::Context;
use crate::decide::verdict::Refusal;
use crate::olm::definition::{self, Field};
use crate::settings::Phase;

/// What is known of the field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Life {
    /// What OLM makes of it.
    pub(crate) phase: Phase,
    source: Source,
}

/// Where that is known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// An administrator says so.
    Settings,
    /// It is what the release has shipped that an administrator names.
    Release,
    /// The cluster's own definition.
    Definition(Field),
    /// There is no definition: a dump without it.
    Nothing,
}

impl Life {
    /// What the settings say, else what the definition says of this version.
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

    /// Whether OLM may act as the account that an extension names. A table of releases may be wrong about this cluster.
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

    /// Whether OLM itself says of the field that it is ignored: its 1.11 brings a policy that warns.
    pub(crate) fn is_said_by_olm(self) -> bool {
        self.source == Source::Definition(Field::Optional { is_ignored: true })
    }

    /// Whether the field may be taken out: not where OLM may go by it.
    pub(crate) fn may_be_stripped(self) -> bool {
        matches!(self.phase, Phase::Deprecated | Phase::Removed)
            && self.source != Source::Definition(Field::Optional { is_ignored: false })
    }
}

/// What the cluster's own definition says of the field; nothing if there is none.
fn field(cx: &Context<'_>, version: &str) -> Result<Option<Field>, Refusal> {
    let answer = cx.lookups.get(EXTENSION_DEFINITION, None, definition::EXTENSIONS).map_err(|error| {
        error.because(
            "it says whether OLM uses spec.serviceAccount: let the policy server get customresourcedefinitions in \
             apiextensions.k8s.io, or say it with clusterExtensions.phase",
        )
    })?;
    Ok(answer.and_then(|answer| definition::field(std::str::from_utf8(&answer).ok()?, version)))
}

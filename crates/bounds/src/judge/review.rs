//! One admission request under review.

use std::ops::Deref;

use crate::admission::AdmissionRequest;
use crate::decide::boundary::SYNTHETIC_USER_PREFIX;
use crate::decide::context::Context;
use crate::rbac::subject::Identity;

/// A request, and the context of its verdict.
#[derive(Debug)]
pub(crate) struct Review<'p> {
    pub(crate) request: &'p AdmissionRequest<'p>,
    /// The requester; `None` in the background audit. Not always the sender of the request: OLM v1's account writes for
    /// extensions.
    pub(crate) requester: Option<Identity>,
    cx: &'p Context<'p>,
}

impl<'p> Review<'p> {
    pub(crate) fn new(request: &'p AdmissionRequest<'p>, cx: &'p Context<'p>) -> Self {
        let user = &request.user_info;
        let groups = || user.groups.iter().map(ToString::to_string).collect();
        let requester = (!user.username.is_empty()).then(|| Identity::user_in(&user.username, groups()));
        Review { request, requester, cx }
    }

    /// The same request, as if another identity had sent it.
    pub(crate) fn sent_by(&self, requester: Identity) -> Self {
        Review { requester: Some(requester), ..*self }
    }

    /// Whether OLM v0 itself is the requester.
    pub(crate) fn is_by_olm_v0(&self) -> bool {
        self.requester.as_ref().is_some_and(|requester| self.cx.settings.is_olm_v0(requester.user()))
    }

    /// Whether OLM v1 is the writer: with its own account, or as the identity of an extension, as it does through
    /// `operator-bounds-controller scope`.
    pub(crate) fn is_by_olm_v1(&self) -> bool {
        self.requester.as_ref().is_some_and(|requester| {
            let user = requester.user();
            self.cx.settings.is_olm_v1(user) || user.starts_with(SYNTHETIC_USER_PREFIX)
        })
    }
}

impl<'p> Deref for Review<'p> {
    type Target = Context<'p>;

    fn deref(&self) -> &Context<'p> {
        self.cx
    }
}

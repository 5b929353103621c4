//! The rules that an identity holds, and in which scopes.

use crate::rbac::covers::Index;
use crate::rbac::role::Rules;
use crate::rbac::scope::Scope;

/// The rules that one identity holds, by scope.
#[derive(Debug, Default)]
pub struct Grant {
    roles: Vec<(Scope, Rules)>,
}

impl Grant {
    /// Combines the rules of roles, each in its scope.
    #[must_use]
    pub fn new(roles: Vec<(Scope, Rules)>) -> Self {
        Grant { roles }
    }

    /// What is held in a scope, indexed to answer questions.
    #[must_use]
    pub fn index(&self, scope: &Scope) -> Index<'_> {
        Index::new(self.in_scope(scope).flat_map(|rules| rules.iter()))
    }

    /// The rules of the roles that are held in a scope.
    pub(crate) fn in_scope(&self, scope: &Scope) -> impl Iterator<Item = &Rules> + Clone {
        let holds = move |at: &Scope| *at == Scope::Cluster || at == scope;
        self.roles.iter().filter(move |(at, _)| holds(at)).map(|(_, rules)| rules)
    }
}

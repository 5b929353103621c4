//! The look-ups of one verdict: counted, and each made only once.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::cluster::{CLUSTER_ROLES, Cluster, Get, List, LookupError, Question, ROLES, Resource, SERVICE_ACCOUNTS};
use crate::decide::holders::Held;
use crate::olm::meta::MetaOnly;
use crate::olm::selector::Selector;
use crate::rbac::role::{RoleKey, Rules};
use crate::rbac::rule::Rule;
use crate::rbac::subject::Identity;
use crate::read::items::{self, Words};
use crate::read::name::{is_no_name, is_object_name, is_plain};
use crate::read::object::object;
use crate::read::text::Text;

/// What is already known. A verdict makes a few dozen look-ups at most: searching a list is as fast as a tree, with a
/// tenth of the code.
struct Known<K, V>(RefCell<Vec<(K, V)>>);

impl<K: PartialEq, V: Clone> Known<K, V> {
    fn new() -> Self {
        Known(RefCell::new(Vec::new()))
    }

    fn get(&self, key: &K) -> Option<V> {
        self.0.borrow().iter().find(|(known, _)| known == key).map(|(_, value)| value.clone())
    }

    fn insert(&self, key: K, value: V) {
        self.0.borrow_mut().push((key, value));
    }

    fn len(&self) -> usize {
        self.0.borrow().len()
    }
}

/// The cluster as one verdict sees it. Nothing is asked twice, so a verdict is consistent in itself and the number of
/// look-ups does not grow with the number of rules.
pub struct Lookups<'c> {
    cluster: &'c dyn Cluster,
    made: Cell<usize>,
    lists: Known<(&'static str, Option<String>), Rc<Vec<u8>>>,
    roles: Known<RoleKey, Option<Role>>,
    role_bytes: Cell<usize>,
    accounts: Known<(String, String), bool>,
    /// What an identity holds in the whole cluster. A map, because there may be thousands: an operator may run as that
    /// many accounts.
    held: RefCell<BTreeMap<Identity, Vec<Held>>>,
}

impl fmt::Debug for Lookups<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookups").field("made", &self.made).finish_non_exhaustive()
    }
}

/// The longest answer that is read. A list of twenty thousand bindings is 15 MB; metadata is always included, and
/// annotations of a quarter of a MB each would exceed the memory of the module.
pub const MAX_ANSWER: usize = 32 * 1024 * 1024;
/// The maximum number of roles looked up for one verdict: they are requested one by one, and the policy server does not
/// wait forever. (Real identities hold a few dozen; a group with many targets holds a few in each.)
const MAX_ROLES: usize = 1_000;
/// The maximum total size of these roles.
const MAX_ROLE_BYTES: usize = 2 * 1024 * 1024;

/// What is kept of a role.
#[derive(Clone)]
struct Role {
    rules: Rules,
    takes_in: Rc<[Selector<'static>]>,
}

object! {
    #[derive(Debug, Default)]
    struct RoleRow<'a> {
        rules: Option<&'a RawValue> = "rules",
        aggregation_rule: AggregationRule<'a> = "aggregationRule",
    }
}

object! {
    /// The other ClusterRoles that are aggregated into a ClusterRole.
    #[derive(Debug, Default)]
    pub(crate) struct AggregationRule<'a> {
        /// A ClusterRole is included if any of these selects it.
        pub(crate) selectors: Vec<Selector<'a>> = "clusterRoleSelectors",
    }
}

impl<'c> Lookups<'c> {
    /// Starts without any known answers.
    pub fn new(cluster: &'c dyn Cluster) -> Self {
        Lookups {
            cluster,
            made: Cell::new(0),
            lists: Known::new(),
            roles: Known::new(),
            role_bytes: Cell::new(0),
            accounts: Known::new(),
            held: RefCell::default(),
        }
    }

    /// The number of look-ups made so far.
    #[must_use]
    pub(crate) fn made(&self) -> usize {
        self.made.get()
    }

    fn count(&self) {
        self.made.set(self.made.get() + 1);
    }

    /// The JSON of a list.
    pub fn list(&self, resource: Resource, namespace: Option<&str>) -> Result<Rc<Vec<u8>>, LookupError> {
        let key = (resource.kind, namespace.map(str::to_owned));
        if let Some(known) = self.lists.get(&key) {
            return Ok(known);
        }
        self.count();
        let list = List { resource, namespace };
        let answer = Rc::new(self.cluster.list(&list)?);
        if answer.len() > MAX_ANSWER {
            return Err(answer_too_long(&list, answer.len()));
        }
        self.lists.insert(key, Rc::clone(&answer));
        Ok(answer)
    }

    /// Whether this list has already been looked up.
    #[must_use]
    pub(crate) fn knows_list(&self, resource: Resource, namespace: Option<&str>) -> bool {
        self.lists.get(&(resource.kind, namespace.map(str::to_owned))).is_some()
    }

    /// The JSON of an object that is needed only once, so the answer is not kept.
    pub(crate) fn get(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Vec<u8>>, LookupError> {
        let get = Get { resource, namespace, name };
        if is_no_name(name) || namespace.is_some_and(is_no_name) {
            return Ok(None);
        }
        if !is_plain(name) || !namespace.is_none_or(is_plain) {
            return Err(failed(&get, "the name contains characters that would lead elsewhere in a URL"));
        }
        self.count();
        let Some(answer) = self.cluster.get(&get)? else { return Ok(None) };
        // Whatever was requested along the way, the answer must be about the object that was asked for.
        let found: MetaOnly<'_> = parse(&answer, &get)?;
        if found.metadata.name != *name {
            return Err(failed(&get, "the answer is about another object"));
        }
        Ok(Some(answer))
    }

    /// Whether a service account exists.
    pub(crate) fn account_exists(&self, namespace: &str, name: &str) -> Result<bool, LookupError> {
        if !is_object_name(name) {
            return Ok(false);
        }
        let key = (namespace.to_owned(), name.to_owned());
        if let Some(known) = self.accounts.get(&key) {
            return Ok(known);
        }
        let exists = self.get(SERVICE_ACCOUNTS, Some(namespace), name)?.is_some();
        self.accounts.insert(key, exists);
        Ok(exists)
    }

    /// The rules of a role; `None` if it does not exist. For aggregated ClusterRoles `rules` is used as it is: the
    /// aggregation controller of Kubernetes fills it in.
    pub fn role(&self, key: &RoleKey) -> Result<Option<Rules>, LookupError> {
        Ok(self.whole_role(key)?.map(|role| role.rules))
    }

    /// Whether ClusterRoles with these labels are aggregated into a ClusterRole.
    pub(crate) fn takes_in(&self, key: &RoleKey, labels: &BTreeMap<Text<'_>, Text<'_>>) -> Result<bool, LookupError> {
        let role = self.whole_role(key)?;
        Ok(role.is_some_and(|role| role.takes_in.iter().any(|selector| selector.selects(labels))))
    }

    /// Whether a role grows with others because they are aggregated into it.
    pub(crate) fn is_aggregated(&self, key: &RoleKey) -> Result<bool, LookupError> {
        if key.namespace.is_some() || !is_plain(&key.name) {
            return Ok(false);
        }
        Ok(self.whole_role(key)?.is_some_and(|role| !role.takes_in.is_empty()))
    }

    fn whole_role(&self, key: &RoleKey) -> Result<Option<Role>, LookupError> {
        if let Some(known) = self.roles.get(key) {
            return Ok(known);
        }
        let resource = if key.namespace.is_some() { ROLES } else { CLUSTER_ROLES };
        let get = Get { resource, namespace: key.namespace.as_deref(), name: &key.name };
        if self.roles.len() >= MAX_ROLES {
            return Err(LookupError::over_limit(
                &get,
                format!(
                    "more than {MAX_ROLES} roles are bound where this is judged, and no more are looked up for one verdict"
                ),
            ));
        }
        let role = match self.get(get.resource, get.namespace, get.name)? {
            None => None,
            Some(answer) => {
                let row: RoleRow<'_> = parse(&answer, &get)?;
                // Only the rules of a role are kept, however long its metadata is.
                let rules = row.rules.map_or("[]", RawValue::get);
                self.role_bytes.set(self.role_bytes.get() + rules.len());
                if self.role_bytes.get() > MAX_ROLE_BYTES {
                    let reason = format!("the roles for this verdict exceed {MAX_ROLE_BYTES} bytes in total");
                    return Err(LookupError::over_limit(&get, reason));
                }
                let rules: Vec<Rule<'_>> = parse(rules.as_bytes(), &get)?;
                Some(Role {
                    rules: rules.into_iter().map(Rule::into_owned).collect(),
                    takes_in: row.aggregation_rule.selectors.into_iter().map(Selector::into_owned).collect(),
                })
            }
        };
        self.roles.insert(key.clone(), role.clone());
        Ok(role)
    }

    /// What an identity holds in the whole cluster, if that has already been searched.
    pub(crate) fn held(&self, identity: &Identity) -> Option<Vec<Held>> {
        self.held.borrow().get(identity).cloned()
    }

    /// Keeps what an identity was found to hold in the whole cluster.
    pub(crate) fn remember(&self, identity: &Identity, held: &[Held]) {
        self.held.borrow_mut().insert(identity.clone(), held.to_vec());
    }

    /// The API server's own answer.
    pub(crate) fn can(&self, question: &Question<'_>) -> Result<bool, LookupError> {
        self.count();
        self.cluster.can(question)
    }
}

/// An answer that would not fit into the memory of the module.
#[must_use]
pub fn answer_too_long(lookup: &dyn fmt::Display, bytes: usize) -> LookupError {
    let reason = format!(
        "the answer is {bytes} bytes long, and at most {MAX_ANSWER} are read. All metadata is included: look for \
         objects of this kind with large annotations"
    );
    failed(lookup, &reason)
}

fn failed(lookup: &dyn fmt::Display, reason: &str) -> LookupError {
    LookupError::new(lookup, reason)
}

/// Parses the answer to a look-up.
pub(crate) fn parse<'a, T: Deserialize<'a>>(answer: &'a [u8], lookup: &dyn fmt::Display) -> Result<T, LookupError> {
    serde_json::from_str(utf8(answer, lookup)?).map_err(|error| unreadable(lookup, &error))
}

/// Everything is parsed from text: a single kind of reader is half the code in the wasm.
fn utf8<'a>(answer: &'a [u8], lookup: &dyn fmt::Display) -> Result<&'a str, LookupError> {
    std::str::from_utf8(answer).map_err(|error| unreadable(lookup, &error))
}

/// Passes the items of a list to `item`, one by one, each with its position; with `words`, only those in which one of them
/// occurs.
pub(crate) fn each_item<'a, T: Deserialize<'a>>(
    answer: &'a [u8],
    lookup: &dyn fmt::Display,
    words: Option<&Words<'_>>,
    item: &mut dyn FnMut(usize, T),
) -> Result<(), LookupError> {
    let mut failed = None;
    let read = items::each(utf8(answer, lookup)?, words, &mut |position, text| match serde_json::from_str(text) {
        Ok(value) => item(position, value),
        Err(error) => failed = Some(unreadable(lookup, &error)),
    });
    match failed {
        Some(error) => Err(error),
        // An answer without items is not a list: treating it as empty would admit what was never examined.
        None => read.ok_or_else(|| unreadable(lookup, &"it is not a list")),
    }
}

fn unreadable(lookup: &dyn fmt::Display, error: &dyn fmt::Display) -> LookupError {
    LookupError::new(lookup, format!("the answer cannot be read: {error}"))
}

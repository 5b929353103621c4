//! Ordered sets.

use std::collections::BTreeSet;

/// Collects into a set one by one. (`collect` sorts a list first, which is faster for many thousands of items but
/// accounts for a fifth of the module's size.)
pub(crate) fn ordered<T: Ord>(items: impl IntoIterator<Item = T>) -> BTreeSet<T> {
    let mut set = BTreeSet::new();
    set.extend(items);
    set
}

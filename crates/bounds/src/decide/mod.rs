//! From an object to a verdict: what bounds it, what it requests, what is missing, and what is reported.

pub(crate) mod authority;
pub mod borrowed;
pub mod boundary;
pub(crate) mod claims;
pub mod context;
pub mod demand;
pub mod excess;
pub mod groups;
pub(crate) mod guard;
pub mod holders;
pub(crate) mod installed;
pub(crate) mod life;
pub mod lookups;
pub mod message;
pub mod needs;
pub mod no_wider;
pub mod pieces;
pub mod plan;
pub mod verdict;
pub mod weigh;
pub mod writes;

//! From an object to a verdict: what bounds it, what it requests, what is missing, and what is reported.

pub(crate) mod authority;
pub(crate) mod borrowed;
pub mod boundary;
pub(crate) mod claims;
pub(crate) mod context;
pub mod demand;
pub(crate) mod excess;
pub mod groups;
pub(crate) mod guard;
pub(crate) mod holders;
pub(crate) mod installed;
pub(crate) mod life;
pub(crate) mod lookups;
pub mod message;
pub mod needs;
pub(crate) mod no_wider;
pub(crate) mod pieces;
pub mod plan;
pub(crate) mod verdict;
pub(crate) mod weigh;
pub mod writes;

pub use borrowed::Operator;
pub use boundary::{Bounds, SYNTHETIC_GROUP, SYNTHETIC_USER_PREFIX};
pub use context::Context;
pub use demand::{Demand, Origin};
pub use excess::{Excess, Limit};
pub use holders::{Held, Reach, holder};
pub use lookups::{Lookups, MAX_ANSWER, answer_too_long};
pub use no_wider::{Bringing, Upgrade, no_wider};
pub use pieces::{Brought, brought};
pub use verdict::{Admitted, Refusal, Refused};
pub use weigh::weigh;
